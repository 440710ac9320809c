import type { Socket } from "node:net";
import { type AcceptedConnection, type ConnectionTable, createConnection, unixAddress } from "./accepted-connection.ts";
import { createConnectionHold } from "./connection-hold.ts";
import { createConnectionLimits, type Entry } from "./connection-limits.ts";
import { createIdentification } from "./identification.ts";
import type { ListenerLimits, ListenerOptions } from "./options.ts";
import { resetConnection } from "./reset-connection.ts";
import { findSurplus } from "./runtime-surplus.ts";

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
