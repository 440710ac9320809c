import type { Socket } from "node:net";
import { clientKeyOf } from "../../auth/client-key.ts";
import { type AcceptedConnection, type ConnectionTable, unixAddress } from "./accepted-connection.ts";
import { createEviction } from "./eviction.ts";
import type { ListenerLimits, ListenerOptions } from "./options.ts";
import { resetConnection } from "./reset-connection.ts";

type Client = {
  readonly key: string;
  readonly connections: Set<Entry>;
  readonly limit: number;
  /** Closes some of its connections that are idle; false: none is. */
  readonly makeRoom: () => boolean;
};

/** `client` is undefined until it was admitted or found to be one of the runtime. */
type Entry = AcceptedConnection & { client: Client | undefined };

/** How many connections may wait to be identified, or be held, beyond the limit of connections: more, if half of that is more. */
const minWaiting = 4_096;

/** How long new connections are identified before they are served, after the runtime has exceeded its share. */
const suspicionMs = 10_000;

/**
 * How long, on average, a new connection of the runtime is not read after it has exceeded its share, since flows connect again at
 * once: at least this, and so long that all of those connect at this rate at most. Otherwise a new connection of an operator would
 * wait behind thousands until it is accepted. Randomized, so that they do not all connect at the same time.
 */
const minHoldMs = 1_000;
const maxHeldPerMs = 0.5;

export type Connections = {
  readonly open: ReadonlySet<AcceptedConnection>;
  /**
   * Calls back with the connection if there is room for it, otherwise resets it. Room is made by closing connections that are
   * idle. Calls back later if others have to be identified first.
   */
  admit(socket: Socket, onAdmitted: (connection: AcceptedConnection) => void): void;
  /** Ends the connections that were not admitted yet. */
  close(): void;
};

/**
 * Limits connections, in total and per client. Those of the flow runtime are recognised when the clients of this machine have many,
 * from whichever of its addresses: they get a small share of their own, so that they do not use up that of operators.
 */
export function createConnections(options: ListenerOptions): Connections {
  const { connections: maxConnections, connectionsPerSource, runtimeSockets, runtimeShare } = options;
  const open = new Set<Entry>();
  const clients = new Map<string, Client>();
  const maxTotal = maxConnections + Math.max(minWaiting, maxConnections / 2);
  /** Those whose kind may turn out to be `runtime`. */
  const unidentified = new Set<Entry>();
  /** Those of them that no lookup covers yet. */
  const unsought = new Set<Entry>();
  /** Connections that are not served, and not read, until they are identified, with what to do then. */
  const waiting = new Map<Entry, () => void>();
  let order = 0;
  let suspiciousUntilMs = 0;
  const held = new Set<Socket>();

  /** Returns whether it was admitted. */
  const leaveClient = (entry: Entry): boolean => {
    const { client } = entry;
    const wasAdmitted = client?.connections.delete(entry) === true;
    if (wasAdmitted && client.connections.size === 0) {
      clients.delete(client.key);
    }
    return wasAdmitted;
  };
  const leave = (entry: Entry): void => {
    open.delete(entry);
    waiting.delete(entry);
    unsought.delete(entry);
    if (unidentified.delete(entry)) {
      // Nobody waits for a response, and who did can't be found any more.
      entry.kind = "runtime";
    }
    leaveClient(entry);
  };
  const evictAt =
    (limit: keyof ListenerLimits) =>
    (entry: Entry): void => {
      options.onLimit(limit);
      leave(entry);
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
    return (
      clients.get(key) ?? createClient(key, options.isProxy(address) ? Number.POSITIVE_INFINITY : connectionsPerSource)
    );
  };

  /** Returns the limit that leaves no room. */
  const tryJoin = (entry: Entry, mayEvict: boolean): keyof ListenerLimits | undefined => {
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
  };

  const suspect = ({ runtimeProcess }: AcceptedConnection): void => {
    suspiciousUntilMs = performance.now() + suspicionMs;
    options.onRuntimeSurplus(runtimeProcess);
  };

  const end = (entry: Entry): void => {
    leave(entry);
    resetConnection(entry.socket);
  };

  const hold = (entry: Entry, onAdmitted: () => void): void => {
    const { socket } = entry;
    held.add(socket);
    const timer = setTimeout(
      () => {
        held.delete(socket);
        if (tryJoin(entry, false) === undefined) {
          onAdmitted();
        } else {
          suspect(entry);
          end(entry);
        }
      },
      Math.max(minHoldMs, held.size / maxHeldPerMs) * 2 * Math.random(),
    );
    socket.once("close", () => {
      held.delete(socket);
      clearTimeout(timer);
    });
  };

  /** Ends the connections of the runtime beyond its share. */
  const endSurplus = (): void => {
    const entries = [...runtime.connections].toSorted(
      (one, other) => Number(other.isAuthenticated) - Number(one.isAuthenticated),
    );
    let connections = 0;
    let calls = 0;
    let ended: Entry | undefined;
    for (const entry of entries) {
      if (connections < runtimeShare.connections && calls + entry.calls.size <= runtimeShare.calls) {
        connections += 1;
        calls += entry.calls.size;
      } else {
        ended = entry;
        end(entry);
      }
    }
    if (ended !== undefined) {
      suspect(ended);
    }
  };

  const identify = async (entries: readonly Entry[]): Promise<void> => {
    entries.forEach((entry) => unsought.delete(entry));
    const found = await runtimeSockets.find(entries.map(({ socket }) => socket));
    let hasMoved = false;
    for (const entry of entries) {
      unidentified.delete(entry);
      const owner = found.get(entry.socket);
      if (owner !== undefined) {
        entry.kind = "runtime";
      }
      if (owner === "abandoned") {
        // Nobody waits for a response. A password that is being checked counts as one of the runtime.
        end(entry);
      } else if (owner !== undefined) {
        entry.runtimeProcess = owner;
        if (leaveClient(entry)) {
          runtime.connections.add(entry);
          hasMoved = true;
        }
        entry.client = runtime;
      }
    }
    if (hasMoved) {
      endSurplus();
    }
    entries.forEach(admitWaiting);
  };

  const admitWaiting = (entry: Entry): void => {
    const onAdmitted = waiting.get(entry);
    if (onAdmitted === undefined) {
      return;
    }
    waiting.delete(entry);
    const isHeld = entry.client === runtime && held.size + open.size < maxConnections;
    const limit = isHeld ? undefined : tryJoin(entry, true);
    if (isHeld) {
      hold(entry, onAdmitted);
    } else if (limit === undefined) {
      onAdmitted();
    } else {
      options.onLimit(limit);
      end(entry);
    }
  };

  // New connections do not wait until those before them are identified: they share the next lookup.
  const identifyAll = async (): Promise<void> => {
    if (unsought.size > 0) {
      await identify([...unsought]);
    }
  };

  const table: ConnectionTable = {
    async identify(connection) {
      const entry = connection as Entry;
      if (unidentified.has(entry)) {
        await identify([entry]);
      }
    },
    identifyAll: () => void identifyAll(),
    endSurplus(connection) {
      suspect(connection);
      leave(connection as Entry);
      connection.evict();
    },
    becameIdle(connection) {
      connection.idleOrder = order;
      order += 1;
    },
  };

  const createEntry = (socket: Socket, remoteAddress: string): Entry => {
    const entry: Entry = {
      socket,
      remoteAddress,
      kind: options.isUnixSocket ? "socket" : "network",
      runtimeProcess: undefined,
      isAuthenticated: false,
      calls: noCalls,
      acceptedMs: performance.now(),
      idleOrder: 0,
      evict: () => void socket.destroy(),
      table,
      client: undefined,
    };
    table.becameIdle(entry);
    return entry;
  };

  return {
    open,
    admit(socket, onAdmitted) {
      const address = options.isUnixSocket ? unixAddress : socket.remoteAddress;
      if (address === undefined) {
        // Its client has reset it already.
        socket.destroy();
        return;
      }
      const entry = createEntry(socket, address);
      socket.once("close", () => leave(entry));
      const isUnidentified = runtimeSockets.isPossible(entry.remoteAddress);
      if (isUnidentified) {
        unidentified.add(entry);
        unsought.add(entry);
        if (unsought.size >= connectionsPerSource / 2) {
          void identifyAll();
        }
      }
      const isSuspicious = isUnidentified && entry.acceptedMs < suspiciousUntilMs;
      const total = open.size + held.size + waiting.size;
      const mayWait = isUnidentified && total < maxTotal;
      const limit = isSuspicious ? "connectionsPerSource" : tryJoin(entry, !mayWait);
      if (limit === undefined) {
        onAdmitted(entry);
      } else if (mayWait) {
        waiting.set(entry, () => onAdmitted(entry));
        void identifyAll();
      } else {
        options.onLimit(limit);
        end(entry);
      }
    },
    close() {
      for (const { socket } of waiting.keys()) {
        resetConnection(socket);
      }
      waiting.clear();
      held.forEach(resetConnection);
    },
  };
}

const noCalls = { size: 0 };
