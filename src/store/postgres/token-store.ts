import { createListeners } from "../../base/listeners.ts";
import { toListedToken, tokenColumns, toToken, toTokenRow } from "../sql/tokens.ts";
import { assertBelow, type NamedTokenCounts, type TokenSelector, type TokenStore } from "../token-store.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";
import { toPortable } from "../sql/query.ts";
import { insert } from "./insert.ts";

/** For replicas that were without a connection. A replica that misses revocations forgets all tokens that it knows. */
const revocationsKeptFor = "1 hour";

/** Must exceed the time after which a database that does not respond counts as unusable (`readMs` in changes.ts). */
const currentForMs = 3_000;

export function createTokenStore(database: Database, changes: Changes): TokenStore {
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

  async function findOne(column: "hash" | "id", value: unknown) {
    const [row] = await database.query(`SELECT ${tokenColumns} FROM flowgate.token WHERE ${column} = $1`, [
      toPortable(value),
    ]);
    return row && toToken(row);
  }

  return {
    insert: (token, entry, limits) =>
      database.transaction(async (query) => {
        // Also excludes others that insert.
        const head = await lockAudit(query);
        if (limits !== undefined) {
          const [counts] = await query<NamedTokenCounts>(
            `SELECT count(*) AS total, count(*) FILTER (WHERE username = $1) AS "ofUser" FROM flowgate.token
             WHERE name IS NOT NULL AND expires_at_ms > $2`,
            [toPortable(token.username), limits.nowMs],
          );
          assertBelow(counts as NamedTokenCounts, limits);
        }
        await insert(query, "token", toTokenRow(token));
        await appendAudit(query, head, [entry]);
      }),

    find: (hash) => findOne("hash", hash),
    get: (id) => findOne("id", id),

    async list({ limit, nowMs, username = null, before = Number.MAX_SAFE_INTEGER }) {
      const rows = await database.query<{ seq: number }>(
        `SELECT seq, ${tokenColumns}, last_used_at_ms FROM flowgate.token
         WHERE seq < $1 AND expires_at_ms > $2 AND ($3::text IS NULL OR username = $3)
         ORDER BY seq DESC LIMIT $4`,
        [before, nowMs, toPortable(username), limit + 1],
      );
      const page = rows.slice(0, limit);
      return { tokens: page.map(toListedToken), next: rows.length > limit ? page.at(-1)?.seq : undefined };
    },

    async remove(selector, entry) {
      const hashes = await database.transaction(async (query) => {
        const head = await lockAudit(query);
        const [condition, values] = toCondition(selector);
        const rows = await query<{ hash: Uint8Array }>(
          `DELETE FROM flowgate.token WHERE ${condition} RETURNING hash`,
          values,
        );
        if (rows.length === 0) {
          return [];
        }
        const removed = rows.map(({ hash }) => hash);
        await query("DELETE FROM flowgate.revocation WHERE revoked_at < now() - $1::interval", [revocationsKeptFor]);
        await query(
          `WITH counted AS (UPDATE flowgate.change SET revocations = revocations + $2 RETURNING revocations - $2 AS last)
           INSERT INTO flowgate.revocation (seq, hash)
           SELECT last + place, hash FROM counted, unnest($1::bytea[]) WITH ORDINALITY AS removed (hash, place)`,
          [removed, removed.length],
        );
        await changes.announce(query);
        await appendAudit(query, head, [{ ...entry, count: removed.length }]);
        return removed;
      });
      // If the changes can't be read, these ones are reported a second time later.
      await changes.refresh().catch(() => hashes.forEach((hash) => revoked.notify(hash)));
      return hashes.length;
    },

    async removeExpired(nowMs) {
      await database.query("DELETE FROM flowgate.token WHERE expires_at_ms <= $1", [nowMs]);
    },

    async recordUses(uses) {
      // Of several replicas, the latest use counts.
      await database.query(
        `UPDATE flowgate.token SET last_used_at_ms = greatest(last_used_at_ms, used.at_ms)
         FROM unnest($1::text[], $2::bigint[]) AS used (id, at_ms) WHERE token.id = used.id`,
        [[...uses.keys()], [...uses.values()]],
      );
    },

    onRevoked: (listener) => revoked.add(listener),
    isCurrent: () => performance.now() - reportedAtMs < currentForMs || !database.health().isUsable,
  };
}

function toCondition(selector: TokenSelector): [condition: string, values: readonly unknown[]] {
  if (selector === "all") {
    return ["true", []];
  }
  // The properties of a selector are named like the columns.
  const [[column, value]] = Object.entries(selector) as [[string, unknown]];
  return [`${column} = $1`, [toPortable(value)]];
}
