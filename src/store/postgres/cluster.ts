import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { createListeners } from "@flowgate/base/listeners";
import type { Cluster, Lease, LeaseReply, LostReplica, Replica, ReplicaStatus } from "../cluster.ts";
import type { CredentialKeys } from "../credential-keys.ts";
import type { Query } from "../sql/query.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";

const heartbeatMs = 1_000;
/** A replica that has missed three heartbeats is not listed. */
const aliveMs = 4_000;
const forgottenAfter = "1 hour";

/** A replica is lost when it is missing for so long: after a failure of the database, all of them are for a moment. */
const lostAfterMs = 5_000;

/**
 * Minimum milliseconds between reads of the list, which grow with the number of replicas because each reads it: `changed` after a
 * change, `unchanged` to update heartbeats.
 */
const readIntervalMs = (replicas: number) => ({ changed: replicas, unchanged: Math.max(heartbeatMs, 10 * replicas) });

type ReplicaRow = { id: string; status: string; ms_ago: number };

/** The replicas that use a database. Disposing removes this one, so that the others need not wait for missing heartbeats. */
export class DatabaseCluster implements Cluster, AsyncDisposable {
  readonly id = randomUUID();
  readonly lease: Lease;
  readonly #database: Database;
  readonly #changes: Changes;
  readonly #listeners = createListeners<void>();
  #keys: readonly string[];
  #status: ReplicaStatus | undefined;
  /** The status that the others know. */
  #written: ReplicaStatus | undefined;
  #writtenAtMs = Number.NEGATIVE_INFINITY;
  #replicas: readonly Replica[] = [];
  /** The replicas that are no longer listed and have not ended by themselves, by id. */
  #missing: ReadonlyMap<string, LostReplica & { readonly sinceMs: number }> = new Map();
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** The time of the last status change, by the clock of the database. */
  #changedAt: string | undefined;

  constructor(database: Database, changes: Changes, keys: CredentialKeys) {
    this.#database = database;
    this.#changes = changes;
    this.#keys = keys.ids();
    this.lease = new DatabaseLease(database, changes, this.id);
    changes.onChange(async () => {
      await this.#write();
      await this.#read();
    });
  }

  report(reported: ReplicaStatus): void {
    const status = { ...reported, keys: this.#keys };
    if (!isDeepStrictEqual(status, this.#status)) {
      this.#status = status;
      // If it fails, the next poll writes it.
      this.#changes.refresh().catch(() => {});
    }
  }

  /** Writes the ids of the keys of credentials that this process knows, if it has reported its status. */
  async reportKeys(ids: readonly string[]): Promise<void> {
    this.#keys = ids;
    if (this.#status !== undefined) {
      this.#status = { ...this.#status, keys: ids };
      await this.#changes.refresh();
    }
  }

  replicas(): readonly Replica[] {
    const passedMs = performance.now() - this.#readAtMs;
    return this.#replicas.map((replica) => ({ ...replica, seenMsAgo: Math.round(replica.seenMsAgo + passedMs) }));
  }

  lost(): LostReplica[] {
    const names = new Set(this.#replicas.map(({ name }) => name));
    const untilMs = performance.now() - lostAfterMs;
    return [...this.#missing.values()]
      .filter(({ name, sinceMs }) => sinceMs < untilMs && !names.has(name))
      .map(({ name, lastMs }) => ({ name, lastMs }));
  }

  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }

  async #write(): Promise<void> {
    const current = this.#status;
    const isChanged = this.#written !== current;
    if (current === undefined || (!isChanged && performance.now() - this.#writtenAtMs < heartbeatMs)) {
      return;
    }
    await this.#database.transaction(async (query) => {
      await query(
        `INSERT INTO flowgate.replica (id, status, seen_at, changed_at) VALUES ($1, $2, clock_timestamp(), clock_timestamp())
         ON CONFLICT (id) DO UPDATE SET status = $2, seen_at = clock_timestamp(),
           changed_at = CASE WHEN replica.status = $2 THEN replica.changed_at ELSE clock_timestamp() END`,
        [this.id, JSON.stringify(current)],
      );
      if (isChanged) {
        await this.#changes.announce(query);
      }
    });
    this.#written = current;
    this.#writtenAtMs = performance.now();
  }

  async #read(): Promise<void> {
    const { query } = this.#database;
    const [latest] = await query<{ at: string | null }>("SELECT max(changed_at)::text AS at FROM flowgate.replica");
    const at = latest?.at ?? undefined;
    const { changed, unchanged } = readIntervalMs(this.#replicas.length);
    if (performance.now() - this.#readAtMs < (at === this.#changedAt ? unchanged : changed)) {
      return;
    }
    const [rows, missing] = await readReplicas(query);
    this.#changedAt = at;
    this.#readAtMs = performance.now();
    const next = rows.map((row) => toReplica(row, this.id));
    this.#missing = new Map(
      missing.map(({ id, status, ms_ago }) => {
        const { name } = JSON.parse(status) as ReplicaStatus;
        const { sinceMs = this.#readAtMs } = this.#missing.get(id) ?? {};
        return [id, { name, lastMs: Date.now() - ms_ago, sinceMs }];
      }),
    );
    const isChanged = !isDeepStrictEqual(next.map(withoutAge), this.#replicas.map(withoutAge));
    this.#replicas = next;
    if (isChanged) {
      this.#listeners.notify();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#written === undefined) {
      return;
    }
    this.#status = undefined;
    // Without it, the others notice it by missing heartbeats.
    await this.#database
      .transaction(async (query) => {
        await query("UPDATE flowgate.replica SET status = '', changed_at = clock_timestamp() WHERE id = $1", [this.id]);
        await query(`DELETE FROM flowgate.replica WHERE seen_at < clock_timestamp() - interval '${forgottenAfter}'`);
        await this.#changes.announce(query);
      })
      .catch(() => {});
  }
}

function toReplica({ id, status, ms_ago }: ReplicaRow, ownId: string): Replica {
  return {
    // In JSON, an undefined `run` is absent.
    ...(JSON.parse(status) as ReplicaStatus),
    id,
    isSelf: id === ownId,
    seenMsAgo: Math.max(0, ms_ago),
  };
}

/** Reads the live replicas, and replicas that were alive within the last hour and have not ended by themselves. */
async function readReplicas(query: Query): Promise<[alive: ReplicaRow[], missing: ReplicaRow[]]> {
  const rows = await query<ReplicaRow>(
    `SELECT id, status, (1000 * extract(epoch FROM clock_timestamp() - seen_at))::bigint AS ms_ago FROM flowgate.replica
     WHERE status <> '' AND seen_at > clock_timestamp() - interval '${forgottenAfter}' ORDER BY id`,
  );
  const isAlive = ({ ms_ago }: ReplicaRow): boolean => ms_ago < aliveMs;
  return [rows.filter(isAlive), rows.filter((row) => !isAlive(row))];
}

/** A replica that has not ended may only be paused. */
const mayReturnMs = 30_000;

/** Resolves with the names of the replicas that do not know a key of the credentials. */
export async function findUnawareReplicas(query: Query, keyId: string): Promise<readonly string[]> {
  const parse = ({ status }: ReplicaRow): ReplicaStatus => JSON.parse(status) as ReplicaStatus;
  const [rows, missing] = await readReplicas(query);
  const alive = rows.map(parse);
  const restarted = new Set(alive.map(({ name }) => name));
  const paused = missing
    .filter(({ ms_ago }) => ms_ago < mayReturnMs)
    .map(parse)
    .filter(({ name }) => !restarted.has(name));
  return [...alive, ...paused].filter(({ keys = [] }) => !keys.includes(keyId)).map(({ name }) => name);
}

/** Rejects if there are replicas, or were some seconds ago. */
export async function assertNoReplicas(query: Query): Promise<void> {
  const [replicas] = await readReplicas(query);
  if (replicas.length > 0) {
    const names = replicas.map(({ status }) => (JSON.parse(status) as ReplicaStatus).name);
    throw new Error(
      `replicas use the database: ${names.join(", ")}. Stop them. If they were killed, wait for ${aliveMs / 1_000} seconds.`,
    );
  }
}

function withoutAge(replica: Replica): object {
  return { ...replica, seenMsAgo: 0 };
}

/** Tokens of a timeline are greater than the previous timeline's. */
const tokensPerTimeline = 2 ** 32;

type LeaseRow = { holder: string; token: number; ms_left: number };

type HeldLease = { readonly token: number; readonly untilMs: number };

class DatabaseLease implements Lease {
  readonly #database: Database;
  readonly #changes: Changes;
  readonly #replicaId: string;
  /** The lease that this replica holds. */
  #own: HeldLease | undefined;
  /** A lease of the timeline before, which a replica may have renewed or acquired on the server that was replaced. */
  #inherited: HeldLease | undefined;

  constructor(database: Database, changes: Changes, replicaId: string) {
    this.#database = database;
    this.#changes = changes;
    this.#replicaId = replicaId;
  }

  async hold(durationMs: number): Promise<LeaseReply> {
    const sentMs = performance.now();
    const reply = await this.#database.transaction((query, { timeline }) =>
      this.#acquire(query, timeline * tokensPerTimeline, durationMs),
    );
    this.#own = reply.isHeld ? { token: reply.token, untilMs: sentMs + durationMs } : undefined;
    return reply;
  }

  async release(): Promise<void> {
    this.#own = undefined;
    await this.#database.transaction(async (query) => {
      await query(
        "UPDATE flowgate.lease SET holder = '', ends_at = clock_timestamp() WHERE name = 'runtime' AND holder = $1",
        [this.#replicaId],
      );
      await this.#changes.announce(query);
    });
  }

  async #acquire(query: Query, firstToken: number, durationMs: number): Promise<LeaseReply> {
    await query(
      `INSERT INTO flowgate.lease (name, holder, token, ends_at) VALUES ('runtime', '', $1, clock_timestamp())
       ON CONFLICT DO NOTHING`,
      [firstToken],
    );
    const [row] = await query<LeaseRow>(
      `SELECT holder, token, ceil(1000 * extract(epoch FROM ends_at - clock_timestamp()))::bigint AS ms_left
       FROM flowgate.lease WHERE name = 'runtime' FOR UPDATE`,
    );
    if (row === undefined) {
      throw new Error("the lease was removed from the database");
    }
    // Read after the lock was obtained: the time may have passed meanwhile.
    const forMs = this.#msLeft(row, firstToken, durationMs);
    if (forMs > 0) {
      return { isHeld: false, forMs };
    }
    const isOwn = row.holder === this.#replicaId && row.token >= firstToken;
    const token = isOwn ? row.token : Math.max(row.token, firstToken) + 1;
    await query(
      `UPDATE flowgate.lease SET holder = $1, token = $2, ends_at = clock_timestamp() + $3 * interval '1 ms'
       WHERE name = 'runtime'`,
      [this.#replicaId, token, durationMs],
    );
    return { isHeld: true, token };
  }

  /** Returns the time for which a lease must still be respected. */
  #msLeft({ holder, token, ms_left }: LeaseRow, firstToken: number, durationMs: number): number {
    if (token >= firstToken) {
      return holder === this.#replicaId ? 0 : ms_left;
    }
    if (this.#own?.token === token && performance.now() < this.#own.untilMs) {
      return 0;
    }
    if (this.#inherited?.token !== token) {
      this.#inherited = { token, untilMs: performance.now() + durationMs };
    }
    return Math.max(ms_left, this.#inherited.untilMs - performance.now());
  }
}
