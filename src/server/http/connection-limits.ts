import { clientKeyOf } from "../../auth/caller.ts";
import type { AcceptedConnection } from "./connection.ts";
import type { ListenerLimits, ListenerOptions } from "./listener-options.ts";

type Client = {
  readonly key: string;
  readonly connections: Set<Entry>;
  readonly limit: number;
  /** Closes some of its connections that are idle; false: none is. */
  readonly makeRoom: () => boolean;
};

/** `client` is undefined until it was admitted or found to be one of the runtime. */
export type Entry = AcceptedConnection & { client: Client | undefined };

export type ConnectionLimits = {
  /** The connections that were admitted. */
  readonly open: ReadonlySet<Entry>;
  /** Those of the runtime among them. */
  readonly ofRuntime: ReadonlySet<Entry>;
  /** Admits a connection, or returns the limit that leaves no room. `mayEvict`: room is made by closing connections that are idle. */
  tryJoin(entry: Entry, mayEvict: boolean): keyof ListenerLimits | undefined;
  leave(entry: Entry): void;
  /** Counts a connection as one of the runtime from now on. Returns whether it was admitted. */
  moveToRuntime(entry: Entry): boolean;
};

/** Limits connections, in total and per client. `onEvict` is called before a connection is closed to make room. */
export function createConnectionLimits(
  { connections: maxConnections, connectionsPerSource, runtimeShare, isProxy, onLimit }: ListenerOptions,
  onEvict: (entry: Entry) => void,
): ConnectionLimits {
  const open = new Set<Entry>();
  const clients = new Map<string, Client>();

  const evictAt =
    (limit: keyof ListenerLimits) =>
    (entry: Entry): void => {
      onLimit(limit);
      onEvict(entry);
      entry.evict();
    };
  const makeRoomInAll = createEviction(open, evictAt("connections"));
  const createClient = (key: string, limit: number): Client => {
    const connections = new Set<Entry>();
    return {
      key,
      connections,
      limit,
      makeRoom: createEviction(connections, evictAt("connectionsPerSource")),
    };
  };
  const runtime = createClient("runtime", runtimeShare.connections);

  const clientOf = (address: string): Client => {
    const key = clientKeyOf(address);
    return clients.get(key) ?? createClient(key, isProxy(address) ? Number.POSITIVE_INFINITY : connectionsPerSource);
  };

  /** Returns whether it was admitted. */
  const leaveClient = (entry: Entry): boolean => {
    const { client } = entry;
    const wasAdmitted = client?.connections.delete(entry) === true;
    if (wasAdmitted && client.connections.size === 0) {
      clients.delete(client.key);
    }
    return wasAdmitted;
  };

  return {
    open,
    ofRuntime: runtime.connections,
    tryJoin(entry, mayEvict) {
      const client = entry.client ?? clientOf(entry.remoteAddress);
      if (client.connections.size >= client.limit && (client === runtime || !mayEvict || !client.makeRoom())) {
        return "connectionsPerSource";
      }
      if (open.size >= maxConnections && (!mayEvict || !makeRoomInAll())) {
        return "connections";
      }
      open.add(entry);
      clients.set(client.key, client);
      client.connections.add(entry);
      entry.client = client;
      return undefined;
    },
    leave(entry) {
      open.delete(entry);
      leaveClient(entry);
    },
    moveToRuntime(entry) {
      const wasAdmitted = leaveClient(entry);
      if (wasAdmitted) {
        runtime.connections.add(entry);
      }
      entry.client = runtime;
      return wasAdmitted;
    },
  };
}

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
function createEviction<Connection extends AcceptedConnection>(
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
