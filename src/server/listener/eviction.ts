import type { AcceptedConnection } from "./accepted-connection.ts";

/** The part of the connections that is closed at once, so that each new connection costs a small part of a scan. */
const batchShare = 1 / 10;

/** A new connection has this time to send its first call, unless too many others are new. */
const graceMs = 100;

/** After a scan in vain, the next one waits for this many times its duration. */
const pauseFactor = 20;

/**
 * Creates a function that closes the connections that have been idle for longest, and returns whether there were any. A connection
 * with a call in flight is not idle, and those that were authenticated come last. The newest are spared for a moment.
 */
export function createEviction<Connection extends AcceptedConnection>(
  connections: ReadonlySet<Connection>,
  evict: (connection: Connection) => void,
): () => boolean {
  let nextScanMs = 0;
  return () => {
    const startMs = performance.now();
    if (startMs < nextScanMs) {
      return false;
    }
    const batchSize = Math.floor(connections.size * batchShare);
    const idle = [...connections]
      .filter(({ calls }) => calls.size === 0)
      .toSorted(
        (one, other) => Number(one.isAuthenticated) - Number(other.isAuthenticated) || one.idleOrder - other.idleOrder,
      );
    const evicted = idle
      .slice(0, Math.max(1, batchSize))
      .filter(({ acceptedMs }, at) => at < idle.length - batchSize || startMs - acceptedMs > graceMs);
    evicted.forEach(evict);
    if (evicted.length === 0) {
      const endMs = performance.now();
      nextScanMs = endMs + pauseFactor * (endMs - startMs);
    }
    return evicted.length > 0;
  };
}
