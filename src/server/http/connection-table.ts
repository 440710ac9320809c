import type { Socket } from "node:net";
import { createConnectionLimits, type Entry } from "./connection-limits.ts";
import {
  type AcceptedConnection,
  type ConnectionTable,
  createConnection,
  resetConnection,
  unixAddress,
} from "./connection.ts";
import { createIdentification } from "./identification.ts";
import type { ListenerLimits, ListenerOptions } from "./listener-options.ts";

/** How many connections may wait to be identified, or be held, beyond `connections`: this many, or half of that limit if that is more. */
const minWaiting = 4_096;

/** How long new connections are identified before they are served, after the runtime has exceeded its share. */
const suspicionMs = 10_000;

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
  const { connections: maxConnections, runtimeShare } = options;
  const limits = createConnectionLimits(options, leave);
  const identification = createIdentification<Entry>(options, sortOut);
  const hold = createConnectionHold();
  const maxTotal = maxConnections + Math.max(minWaiting, maxConnections / 2);
  /** Connections that are not served, and not read, until they are identified, with what to do then. */
  const waiting = new Map<Entry, () => void>();
  let order = 0;
  let suspiciousUntilMs = 0;

  function leave(entry: Entry): void {
    waiting.delete(entry);
    identification.forget(entry);
    limits.leave(entry);
  }

  const end = (entry: Entry): void => {
    leave(entry);
    resetConnection(entry.socket);
  };

  const reject = (entry: Entry, limit: keyof ListenerLimits): void => {
    options.onLimit(limit);
    end(entry);
  };

  const suspect = ({ runtimeProcess }: AcceptedConnection): void => {
    suspiciousUntilMs = performance.now() + suspicionMs;
    options.onRuntimeSurplus(runtimeProcess);
  };

  /** Ends the connections of the runtime beyond its share. */
  const endSurplus = (): void => {
    const surplus = findSurplus(limits.ofRuntime, runtimeShare);
    surplus.forEach(end);
    const last = surplus.at(-1);
    if (last !== undefined) {
      suspect(last);
    }
  };

  function sortOut(entries: readonly Entry[], owners: ReadonlyMap<Socket, number | "abandoned">): void {
    let hasMoved = false;
    for (const entry of entries) {
      const owner = owners.get(entry.socket);
      if (owner === "abandoned") {
        // The client has closed the connection. A login in progress on it counts as a login of the runtime.
        end(entry);
      } else if (owner !== undefined && limits.moveToRuntime(entry)) {
        hasMoved = true;
      }
    }
    if (hasMoved) {
      endSurplus();
    }
    entries.forEach(admitWaiting);
  }

  const admitWaiting = (entry: Entry): void => {
    const onAdmitted = waiting.get(entry);
    if (onAdmitted === undefined) {
      return;
    }
    waiting.delete(entry);
    if (entry.kind === "runtime" && hold.size() + limits.open.size < maxConnections) {
      hold.begin(entry.socket, () => {
        if (limits.tryJoin(entry, false) === undefined) {
          onAdmitted();
        } else {
          suspect(entry);
          end(entry);
        }
      });
      return;
    }
    const limit = limits.tryJoin(entry, true);
    if (limit === undefined) {
      onAdmitted();
    } else {
      reject(entry, limit);
    }
  };

  const table: ConnectionTable = {
    identify: (connection) => identification.identify(connection as Entry),
    identifyAll: () => void identification.identifyAll(),
    endSurplus(connection) {
      suspect(connection);
      leave(connection as Entry);
      connection.evict();
    },
    exhaustedMs: Number.NEGATIVE_INFINITY,
    becameIdle(connection) {
      connection.idleOrder = order;
      order += 1;
    },
  };

  return {
    open: limits.open,
    admit(socket, onAdmitted) {
      const address = options.isUnixSocket ? unixAddress : socket.remoteAddress;
      if (address === undefined) {
        // Its client has reset it already.
        socket.destroy();
        return;
      }
      const kind = options.isUnixSocket ? "socket" : "network";
      const entry: Entry = { ...createConnection(socket, address, kind, table), client: undefined };
      table.becameIdle(entry);
      socket.once("close", () => leave(entry));
      const isUnidentified = identification.track(entry);
      const isSuspicious = isUnidentified && entry.acceptedMs < suspiciousUntilMs;
      const total = limits.open.size + hold.size() + waiting.size;
      const mayWait = isUnidentified && total < maxTotal;
      const limit = isSuspicious ? "connectionsPerSource" : limits.tryJoin(entry, !mayWait);
      if (limit === undefined) {
        onAdmitted(entry);
      } else if (mayWait) {
        waiting.set(entry, () => onAdmitted(entry));
        void identification.identifyAll();
      } else {
        reject(entry, limit);
      }
    },
    close() {
      for (const { socket } of waiting.keys()) {
        resetConnection(socket);
      }
      waiting.clear();
      hold.close();
    },
  };
}

/**
 * After the runtime has exceeded its share, each of its new connections stays unread for a random time: on average `minHoldMs`,
 * or longer, so that at most `maxHeldPerMs` of them are released per millisecond. Its flows reconnect at once, and a connection of
 * an operator would otherwise wait behind thousands of theirs.
 */
const minHoldMs = 1_000;
const maxHeldPerMs = 0.5;

/** Connections that are not read for a while. */
type ConnectionHold = {
  size(): number;
  /** Calls back when the time of the connection is over, unless it has closed. */
  begin(socket: Socket, onEnd: () => void): void;
  /** Resets all of them. */
  close(): void;
};

function createConnectionHold(): ConnectionHold {
  const held = new Set<Socket>();
  return {
    size: () => held.size,
    begin(socket, onEnd) {
      held.add(socket);
      const timer = setTimeout(
        () => {
          held.delete(socket);
          onEnd();
        },
        Math.max(minHoldMs, held.size / maxHeldPerMs) * 2 * Math.random(),
      );
      socket.once("close", () => {
        held.delete(socket);
        clearTimeout(timer);
      });
    },
    close: () => held.forEach(resetConnection),
  };
}

/** The connections of the runtime beyond its share. Those that were authenticated are the last to be among them. */
function findSurplus<Connection extends AcceptedConnection>(
  ofRuntime: ReadonlySet<Connection>,
  share: ListenerOptions["runtimeShare"],
): Connection[] {
  const connections = [...ofRuntime].toSorted(
    (one, other) => Number(other.isAuthenticated) - Number(one.isAuthenticated),
  );
  const kept = { connections: 0, calls: 0 };
  return connections.filter(({ calls }) => {
    const isSurplus = kept.connections >= share.connections || kept.calls + calls.size > share.calls;
    if (!isSurplus) {
      kept.connections += 1;
      kept.calls += calls.size;
    }
    return isSurplus;
  });
}
