import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { createListeners } from "../../base/listeners.ts";
import type { Cluster, Replica, ReplicaStatus, Lease, LeaseReply } from "../cluster.ts";
import type { Changes } from "./changes.ts";
import type { Query } from "../sql/query.ts";
import type { Database } from "./database.ts";

const heartbeatMs = 1_000;
/** A replica that has missed three heartbeats is not listed. */
const aliveFor = "4 seconds";
const forgottenAfter = "1 hour";

/**
 * Minimum milliseconds between reads of the list, which grow with the number of replicas because each reads it: `changed` after a
 * change, `unchanged` to update heartbeats.
 */
const readIntervalMs = (replicas: number) => ({ changed: replicas, unchanged: Math.max(heartbeatMs, 10 * replicas) });

type ReplicaRow = { id: string; status: string; ms_ago: number };

/** Disposing removes this replica from the list, so that the others need not wait for missing heartbeats. */
export function createCluster(database: Database, changes: Changes): Cluster & AsyncDisposable {
  const id = randomUUID();
  const listeners = createListeners<void>();
  let status: ReplicaStatus | undefined;
  /** The status that the others know. */
  let written: ReplicaStatus | undefined;
  let writtenAtMs = Number.NEGATIVE_INFINITY;
  let replicas: readonly Replica[] = [];
  let readAtMs = Number.NEGATIVE_INFINITY;
  /** When a status has changed last, by the clock of the database. */
  let changedAt: string | undefined;

  async function write(): Promise<void> {
    const isChanged = written !== status;
    if (status === undefined || (!isChanged && performance.now() - writtenAtMs < heartbeatMs)) {
      return;
    }
    const current = status;
    await database.transaction(async (query) => {
      await query(
        `INSERT INTO flowgate.replica (id, status, seen_at, changed_at) VALUES ($1, $2, clock_timestamp(), clock_timestamp())
         ON CONFLICT (id) DO UPDATE SET status = $2, seen_at = clock_timestamp(),
           changed_at = CASE WHEN replica.status = $2 THEN replica.changed_at ELSE clock_timestamp() END`,
        [id, JSON.stringify(current)],
      );
      if (isChanged) {
        await changes.announce(query);
      }
    });
    written = current;
    writtenAtMs = performance.now();
  }

  async function read(): Promise<void> {
    const [latest] = await database.query<{ at: string | null }>(
      "SELECT max(changed_at)::text AS at FROM flowgate.replica",
    );
    const at = latest?.at ?? undefined;
    const { changed, unchanged } = readIntervalMs(replicas.length);
    if (performance.now() - readAtMs < (at === changedAt ? unchanged : changed)) {
      return;
    }
    const rows = await readReplicas(database.query);
    changedAt = at;
    readAtMs = performance.now();
    const next = rows.map(toReplica);
    const isChanged = !isDeepStrictEqual(next.map(withoutAge), replicas.map(withoutAge));
    replicas = next;
    if (isChanged) {
      listeners.notify();
    }
  }

  function toReplica({ id: replicaId, status: json, ms_ago }: ReplicaRow): Replica {
    return {
      // In JSON, an undefined `run` is absent.
      ...(JSON.parse(json) as ReplicaStatus),
      id: replicaId,
      isSelf: replicaId === id,
      seenMsAgo: Math.max(0, ms_ago),
    };
  }

  changes.onChange(async () => {
    await write();
    await read();
  });

  return {
    id,
    report(next) {
      if (!isDeepStrictEqual(next, status)) {
        status = next;
        // If it fails, the next poll writes it.
        changes.refresh().catch(() => {});
      }
    },
    replicas() {
      const passedMs = performance.now() - readAtMs;
      return replicas.map((replica) => ({ ...replica, seenMsAgo: Math.round(replica.seenMsAgo + passedMs) }));
    },
    onChange: (listener) => listeners.add(listener),
    lease: createLease(database, changes, id),
    async [Symbol.asyncDispose]() {
      if (written === undefined) {
        return;
      }
      status = undefined;
      // Without it, the others notice it by missing heartbeats.
      await database
        .transaction(async (query) => {
          await query("UPDATE flowgate.replica SET status = '', changed_at = clock_timestamp() WHERE id = $1", [id]);
          await query(`DELETE FROM flowgate.replica WHERE seen_at < clock_timestamp() - interval '${forgottenAfter}'`);
          await changes.announce(query);
        })
        .catch(() => {});
    },
  };
}

async function readReplicas(query: Query): Promise<ReplicaRow[]> {
  return query<ReplicaRow>(
    `SELECT id, status, (1000 * extract(epoch FROM clock_timestamp() - seen_at))::bigint AS ms_ago FROM flowgate.replica
     WHERE status <> '' AND seen_at > clock_timestamp() - interval '${aliveFor}' ORDER BY id`,
  );
}

/** Rejects if there are replicas, or were some seconds ago. */
export async function assertNoReplicas(query: Query): Promise<void> {
  const replicas = await readReplicas(query);
  if (replicas.length > 0) {
    const names = replicas.map(({ status }) => (JSON.parse(status) as ReplicaStatus).name);
    throw new Error(
      `replicas use the database: ${names.join(", ")}. Stop them. If they were killed, wait for ${aliveFor}.`,
    );
  }
}

function withoutAge(replica: Replica): object {
  return { ...replica, seenMsAgo: 0 };
}

/** Tokens of a timeline are greater than those of the one before. */
const tokensPerTimeline = 2 ** 32;

type LeaseRow = { holder: string; token: number; ms_left: number };

/** `id` is that of the replica. */
export function createLease(database: Database, changes: Changes, id: string): Lease {
  /** The lease that this replica holds. */
  let own: { readonly token: number; readonly untilMs: number } | undefined;
  /** A lease of the timeline before, which a replica may have renewed or acquired on the server that was replaced. */
  let inherited: { readonly token: number; readonly untilMs: number } | undefined;

  /** How long a lease must still be respected. */
  function msLeft({ holder, token, ms_left }: LeaseRow, firstToken: number, durationMs: number): number {
    if (token >= firstToken) {
      return holder === id ? 0 : ms_left;
    }
    if (own?.token === token && performance.now() < own.untilMs) {
      return 0;
    }
    if (inherited?.token !== token) {
      inherited = { token, untilMs: performance.now() + durationMs };
    }
    return Math.max(ms_left, inherited.untilMs - performance.now());
  }

  return {
    async hold(durationMs) {
      const sentMs = performance.now();
      const reply = await database.transaction(async (query, { timeline }): Promise<LeaseReply> => {
        const firstToken = timeline * tokensPerTimeline;
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
        const forMs = msLeft(row, firstToken, durationMs);
        if (forMs > 0) {
          return { isHeld: false, forMs };
        }
        const token = row.holder === id && row.token >= firstToken ? row.token : Math.max(row.token, firstToken) + 1;
        await query(
          `UPDATE flowgate.lease SET holder = $1, token = $2, ends_at = clock_timestamp() + $3 * interval '1 ms'
           WHERE name = 'runtime'`,
          [id, token, durationMs],
        );
        return { isHeld: true, token };
      });
      own = reply.isHeld ? { token: reply.token, untilMs: sentMs + durationMs } : undefined;
      return reply;
    },

    async release() {
      own = undefined;
      await database.transaction(async (query) => {
        await query(
          "UPDATE flowgate.lease SET holder = '', ends_at = clock_timestamp() WHERE name = 'runtime' AND holder = $1",
          [id],
        );
        await changes.announce(query);
      });
    },
  };
}
