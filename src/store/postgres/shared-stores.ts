import { createListeners } from "@flowgate/base/listeners";
import type { CredentialKeys } from "../credential-keys.ts";
import type { DesiredStateStore } from "../desired-state.ts";
import type { ModuleStore } from "../module-store.ts";
import type { SettingStore } from "../setting-store.ts";
import { findDesiredState, KnownState, setDesiredState } from "../sql/desired-state.ts";
import { recordModules } from "../sql/modules.ts";
import { KnownSettings } from "../sql/node-settings.ts";
import type { Query } from "../sql/query.ts";
import { type Access, createModuleStore, createSettingStore, createTokenStore } from "../sql/stores.ts";
import { removeTokens } from "../sql/tokens.ts";
import type { TokenStore } from "../token-store.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";

// The parts of the store that several replicas change.

/** A state that several replicas change. */
export async function createSharedDesiredState(database: Database, changes: Changes): Promise<DesiredStateStore> {
  const known = new KnownState(await findDesiredState(database.query));
  changes.onChange(async ({ desiredSeq }) => {
    if ((desiredSeq ?? 0) !== known.seq) {
      known.replace(await findDesiredState(database.query));
    }
  });
  return {
    current: () => known.state,
    async set(isStarted, entry) {
      const written = await database.transaction(async (query) => {
        const state = await setDesiredState(query, { isStarted, entry });
        await changes.announce(query);
        return state;
      });
      // Another replica may have changed it again, which was read meanwhile.
      if (written.seq > known.seq) {
        known.replace(written);
      }
      return known.state;
    },
    onChange: (listener) => known.onChange(listener),
  };
}

/** Settings that several replicas change. */
export async function createSharedSettings(
  database: Database,
  access: Access,
  changes: Changes,
  keys: CredentialKeys,
): Promise<SettingStore> {
  const known = new KnownSettings(database.query, keys);
  let { settings } = changes.latest();
  await known.read();
  changes.onChange(async (counts) => {
    if (counts.settings !== settings) {
      await known.read();
      ({ settings } = counts);
    }
  });
  return createSettingStore(access, known, keys);
}

/** The modules of revisions, which several replicas change. */
export function createSharedModuleStore(database: Database, access: Access, changes: Changes): ModuleStore {
  const listeners = createListeners<void>();
  let known = changes.latest();
  changes.onChange((counts) => {
    const isChange = counts.rev === known.rev && counts.moduleSetSeq !== known.moduleSetSeq;
    known = counts;
    if (isChange) {
      listeners.notify();
    }
  });
  return {
    ...createModuleStore(access),
    record: (rev, modules, before) =>
      database.transaction(async (query) => {
        const isRecorded = await recordModules(query, { rev, modules, before });
        await changes.announce(query);
        return isRecorded;
      }),
    onChange: (listener) => listeners.add(listener),
  };
}

/** For replicas that were without a connection. A replica that misses revocations forgets all tokens that it knows. */
const revocationsKeptFor = "1 hour";

/** Must exceed the time after which a database that does not respond counts as unusable (`readMs` in changes.ts). */
const currentForMs = 3_000;

/** A token store that also reports what other replicas remove. `keys` encrypt what sessions keep. */
export function createSharedTokenStore(
  database: Database,
  access: Access,
  changes: Changes,
  keys: CredentialKeys,
): TokenStore {
  const revoked = createListeners<Uint8Array | undefined>();
  /** The number of the last revocation that was reported. */
  let reported = changes.latest().revocations;
  let reportedAtMs = changes.readAtMs();

  async function reportRevocations(latest: number): Promise<void> {
    if (latest === reported) {
      return;
    }
    const rows = await database.query<{ seq: number; hash: Uint8Array }>(
      "SELECT seq, hash FROM flowgate.revocation WHERE seq > $1 ORDER BY seq",
      [reported],
    );
    // The first ones may have been removed, or lost with a server that was replaced.
    const isComplete = latest > reported && rows[0]?.seq === reported + 1;
    reported = rows.at(-1)?.seq ?? latest;
    for (const hash of isComplete ? rows.map((row) => row.hash) : [undefined]) {
      revoked.notify(hash);
    }
  }
  changes.onChange(async ({ revocations }) => {
    const readAtMs = changes.readAtMs();
    await reportRevocations(revocations);
    reportedAtMs = readAtMs;
  });

  return {
    ...createTokenStore(access, revoked, keys),
    async remove(selector, entry) {
      const hashes = await database.transaction(async (query) => {
        const removed = await removeTokens(query, { selector, entry });
        if (removed.length > 0) {
          await writeRevocations(query, removed);
          await changes.announce(query);
        }
        return removed;
      });
      // If the changes can't be read, these ones are reported a second time later.
      await changes.refresh().catch(() => hashes.forEach((hash) => revoked.notify(hash)));
      return hashes.length;
    },
    isCurrent: () => performance.now() - reportedAtMs < currentForMs || !database.health.get().isUsable,
  };
}

/** Records removed tokens for the other replicas. */
async function writeRevocations(query: Query, hashes: readonly Uint8Array[]): Promise<void> {
  await query("DELETE FROM flowgate.revocation WHERE revoked_at < now() - $1::interval", [revocationsKeptFor]);
  await query(
    `WITH counted AS (UPDATE flowgate.change SET revocations = revocations + $2 RETURNING revocations - $2 AS last)
     INSERT INTO flowgate.revocation (seq, hash)
     SELECT last + place, hash FROM counted, unnest($1::bytea[]) WITH ORDINALITY AS removed (hash, place)`,
    [hashes, hashes.length],
  );
}
