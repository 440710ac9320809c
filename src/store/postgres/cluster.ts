import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { createListeners } from "../../base/listeners.ts";
import type { Cluster, Replica, ReplicaStatus } from "../cluster.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";
import { createLease } from "./lease.ts";
import type { Query } from "./query.ts";

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
