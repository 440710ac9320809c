import { createListeners } from "@flowgate/base/listeners";
import type { Cluster, LeaseReply, ReplicaStatus } from "../../src/store/cluster.ts";

export type Member = Cluster & {
  /** As if the process had ended: its status and its lease remain until they expire. */
  leave(): void;
};

/** Replicas in one process, which share what a database would hold. */
export function createMemoryCluster(): { join(): Member } {
  const statuses = new Map<string, ReplicaStatus>();
  const changes = createListeners<void>();
  let lease = { holder: "", token: 0, untilMs: 0 };
  let joined = 0;
  /** Notifications arrive later, as those of a database. */
  const notify = (): void => void setImmediate(() => changes.notify());

  function hold(id: string, durationMs: number): LeaseReply {
    const nowMs = performance.now();
    if (lease.holder !== id) {
      if (lease.untilMs > nowMs) {
        return { isHeld: false, forMs: lease.untilMs - nowMs };
      }
      lease = { ...lease, holder: id, token: lease.token + 1 };
    }
    lease = { ...lease, untilMs: nowMs + durationMs };
    return { isHeld: true, token: lease.token };
  }

  return {
    join() {
      joined += 1;
      const id = `replica-${joined}`;
      return {
        id,
        report(status) {
          statuses.set(id, status);
          notify();
        },
        replicas: () =>
          [...statuses].map(([other, status]) => ({ ...status, id: other, isSelf: other === id, seenMsAgo: 0 })),
        lost: () => [],
        onChange: (listener) => changes.add(listener),
        lease: {
          hold: async (durationMs) => hold(id, durationMs),
          async release() {
            if (lease.holder !== id) {
              return;
            }
            lease = { ...lease, holder: "", untilMs: 0 };
            notify();
          },
        },
        leave() {
          statuses.delete(id);
          notify();
        },
      };
    },
  };
}
