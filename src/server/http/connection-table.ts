import type { Socket } from "node:net";
import { clientKeyOf } from "../../auth/caller.ts";
import {
  type AcceptedConnection,
  type ConnectionTable,
  createConnection,
  resetConnection,
  unixAddress,
} from "./connection.ts";
import type { ListenerLimits, ListenerOptions } from "./listener-options.ts";

export function createConnectionTable(options: ListenerOptions): ConnectionTable {
  const limits = new ConnectionLimits(options);
  let nextOrder = 0;
  const table: ConnectionTable = {
    open: limits.open,
    exhaustedMs: Number.NEGATIVE_INFINITY,
    admit(socket, onAdmitted) {
      const entry = acceptSocket(socket, options, table);
      if (entry === undefined) {
        return;
      }
      socket.once("close", () => limits.leave(entry));
      const limit = limits.tryJoin(entry);
      if (limit === undefined) {
        onAdmitted(entry);
      } else {
        options.onLimit(limit);
        resetConnection(socket);
      }
    },
    becameIdle(connection) {
      connection.idleOrder = nextOrder++;
    },
  };
  return table;
}

/** Undefined: its client has reset the connection already. */
function acceptSocket(
  socket: Socket,
  { isUnixSocket }: Pick<ListenerOptions, "isUnixSocket">,
  table: ConnectionTable,
): CountedConnection | undefined {
  const address = isUnixSocket ? unixAddress : socket.remoteAddress;
  if (address === undefined) {
    socket.destroy();
    return undefined;
  }
  const kind = isUnixSocket ? "socket" : "network";
  const entry: CountedConnection = { ...createConnection(socket, address, kind, table), client: undefined };
  table.becameIdle(entry);
  return entry;
}

type Client = {
  readonly key: string;
  readonly connections: Set<CountedConnection>;
  readonly limit: number;
  readonly eviction: Eviction;
};

/** `client` is undefined until it was admitted. */
type CountedConnection = AcceptedConnection & { client: Client | undefined };

class ConnectionLimits {
  readonly open: ReadonlySet<CountedConnection>;
  readonly #options: ListenerOptions;
  readonly #open = new Set<CountedConnection>();
  readonly #eviction: Eviction;
  readonly #clients = new Map<string, Client>();

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#eviction = new Eviction(this.#open, (entry) => this.#evict(entry, "connections"));
    this.open = this.#open;
  }

  /** Admits a connection, or returns the limit that leaves no room even if connections that are idle are closed. */
  tryJoin(entry: CountedConnection): keyof ListenerLimits | undefined {
    const client = this.#clientOf(entry.remoteAddress);
    const { connections, limit, eviction } = client;
    if (connections.size >= limit && !eviction.makeRoom()) {
      return "connectionsPerSource";
    }
    if (this.#open.size >= this.#options.connections && !this.#eviction.makeRoom()) {
      return "connections";
    }
    this.#open.add(entry);
    this.#clients.set(client.key, client);
    connections.add(entry);
    entry.client = client;
    return undefined;
  }

  leave(entry: CountedConnection): void {
    this.#open.delete(entry);
    const { client } = entry;
    if (client?.connections.delete(entry) === true && client.connections.size === 0) {
      this.#clients.delete(client.key);
    }
  }

  #createClient(key: string, limit: number): Client {
    const connections = new Set<CountedConnection>();
    const eviction = new Eviction(connections, (entry) => this.#evict(entry, "connectionsPerSource"));
    return { key, connections, limit, eviction };
  }

  #clientOf(address: string): Client {
    const { isProxy, connectionsPerSource } = this.#options;
    const key = clientKeyOf(address);
    return (
      this.#clients.get(key) ??
      this.#createClient(key, isProxy(address) ? Number.POSITIVE_INFINITY : connectionsPerSource)
    );
  }

  #evict(entry: CountedConnection, limit: keyof ListenerLimits): void {
    this.#options.onLimit(limit);
    this.leave(entry);
    entry.evict();
  }
}

/** The part of the connections that is closed at once, so that each new connection costs a small part of a scan. */
const batchShare = 1 / 10;

/** A new connection has this time to send its first call, unless too many others are new. */
const graceMs = 100;

/** After a scan in vain, the next one waits for this many times its duration. */
const pauseFactor = 20;

/**
 * Closes the connections that have been idle for longest. A connection with a call in flight is not idle, and
 * authenticated ones come last. The newest are spared for a moment.
 */
class Eviction {
  readonly #connections: ReadonlySet<CountedConnection>;
  readonly #evict: (entry: CountedConnection) => void;
  #nextScanMs = 0;

  constructor(connections: ReadonlySet<CountedConnection>, evict: (entry: CountedConnection) => void) {
    this.#connections = connections;
    this.#evict = evict;
  }

  /** Returns whether any were closed. */
  makeRoom(): boolean {
    const startMs = performance.now();
    if (startMs < this.#nextScanMs) {
      return false;
    }
    const batchSize = Math.floor(this.#connections.size * batchShare);
    const idle = [...this.#connections]
      .filter(({ calls }) => calls.size === 0)
      .toSorted(
        (one, other) => Number(one.isAuthenticated) - Number(other.isAuthenticated) || one.idleOrder - other.idleOrder,
      );
    const evicted = idle
      .slice(0, Math.max(1, batchSize))
      .filter(({ acceptedMs }, at) => at < idle.length - batchSize || startMs - acceptedMs > graceMs);
    evicted.forEach(this.#evict);
    if (evicted.length === 0) {
      const endMs = performance.now();
      this.#nextScanMs = endMs + pauseFactor * (endMs - startMs);
    }
    return evicted.length > 0;
  }
}
