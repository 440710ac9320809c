import type { Socket } from "node:net";
import type { Logger } from "pino";
import { type AcceptedConnection, type ConnectionTable, resetConnection } from "./connection.ts";
import { acceptSocket, ConnectionLimits, createOrder, type CountedConnection } from "./connection-table.ts";
import { listenerDefaults, type ListenerLimits, type ListenerOptions } from "./listener-options.ts";
import {
  createRuntimeSockets,
  Identification,
  type Owners,
  type RuntimeProcessInfo,
  type RuntimeSockets,
} from "./runtime-sockets.ts";

// Loaded where flows can reach the API: they have the address of local operators, whose limits they would use up.

export type RuntimeShareOptions = {
  readonly runtimeProcess: RuntimeProcessInfo;
  readonly limits: { connectionsPerSource?: number; inFlightPerSource?: number; inFlight?: number };
  /** Called each time that the share is exceeded. */
  readonly onLimit: (limit: "runtime") => void;
  /** Called when flows of the current process exceed the share. */
  readonly onRuntimeAbuse?: ((reason: string) => void) | undefined;
  readonly log: Logger;
};

/** What the flow runtime may have of the API: a tenth of the limits of one client. */
export type RuntimeShare = {
  /** How many calls in flight. */
  readonly calls: number;
  readonly createTable: (options: ListenerOptions) => ConnectionTable;
};

export function createRuntimeShare(options: RuntimeShareOptions): RuntimeShare {
  const { connectionsPerSource, inFlightPerSource, inFlight } = options.limits;
  const tenthOf = (limit: number): number => Math.max(1, Math.floor(limit / 10));
  const share = {
    connections: tenthOf(connectionsPerSource ?? listenerDefaults.connectionsPerSource),
    calls: tenthOf(inFlightPerSource || inFlight || Number.POSITIVE_INFINITY),
  };
  const sockets = createRuntimeSockets(options.runtimeProcess);
  const onSurplus = createAlarm(options);
  return {
    calls: share.calls,
    createTable: (listener) => new SharedTable(listener, { share, sockets, onSurplus }),
  };
}

const logIntervalMs = 10_000;

const reason = "flows used up their share of the connections and calls of the API";

/** Counts each time, and logs at most every 10 s. What is left of an earlier process is no reason to distrust the current one. */
function createAlarm({
  runtimeProcess,
  onLimit,
  onRuntimeAbuse,
  log,
}: RuntimeShareOptions): SharedTableOptions["onSurplus"] {
  let nextLogMs = 0;
  return (processId) => {
    onLimit("runtime");
    if (processId !== undefined && processId === runtimeProcess.processId()) {
      onRuntimeAbuse?.(reason);
    }
    const nowMs = performance.now();
    if (nowMs >= nextLogMs) {
      nextLogMs = nowMs + logIntervalMs;
      log.warn(`${reason}: further ones are closed`);
    }
  };
}

/** How many connections may wait to be identified, or be held, beyond `connections`: this many, or half of that limit if that is more. */
const minWaiting = 4_096;

/** How long new connections are identified before they are served, after the runtime has exceeded its share. */
const suspicionMs = 10_000;

export type SharedTableOptions = {
  /** How many connections, and calls in flight on them, the runtime may have. */
  readonly share: { readonly connections: number; readonly calls: number };
  readonly sockets: RuntimeSockets;
  /** Called when connections or calls of the runtime beyond its share were ended, with its process id. */
  readonly onSurplus: (processId: number | undefined) => void;
};

/**
 * Recognises the connections of the flow runtime when the clients of this machine have many, from whichever of its addresses, and
 * ends those beyond the share.
 */
export class SharedTable implements ConnectionTable {
  readonly open: ReadonlySet<AcceptedConnection>;
  exhaustedMs = Number.NEGATIVE_INFINITY;
  readonly #listener: ListenerOptions;
  readonly #share: SharedTableOptions["share"];
  readonly #onSurplus: SharedTableOptions["onSurplus"];
  readonly #limits: ConnectionLimits;
  readonly #maxTotal: number;
  readonly #identification: Identification;
  /** Connections that are not served, and not read, until they are identified, with what to do then. */
  readonly #waiting = new Map<CountedConnection, () => void>();
  readonly #hold = new ConnectionHold();
  readonly #nextOrder = createOrder();
  #suspiciousUntilMs = 0;

  constructor(listener: ListenerOptions, { share, sockets, onSurplus }: SharedTableOptions) {
    const { connections, connectionsPerSource } = listener;
    this.#listener = listener;
    this.#share = share;
    this.#onSurplus = onSurplus;
    this.#limits = new ConnectionLimits(listener, share.connections);
    this.open = this.#limits.open;
    this.#maxTotal = connections + Math.max(minWaiting, connections / 2);
    this.#identification = new Identification(sockets, connectionsPerSource / 2, (entries, owners) =>
      this.#sortOut(entries, owners),
    );
  }

  admit(socket: Socket, onAdmitted: (connection: AcceptedConnection) => void): void {
    const entry = acceptSocket(socket, this.#listener, this);
    if (entry === undefined) {
      return;
    }
    socket.once("close", () => this.#leave(entry));
    const isUnidentified = this.#identification.track(entry);
    const isSuspicious = isUnidentified && entry.acceptedMs < this.#suspiciousUntilMs;
    const total = this.open.size + this.#hold.size + this.#waiting.size;
    const mayWait = isUnidentified && total < this.#maxTotal;
    const limit = isSuspicious ? "connectionsPerSource" : this.#limits.tryJoin(entry, !mayWait);
    if (limit === undefined) {
      onAdmitted(entry);
    } else if (mayWait) {
      this.#waiting.set(entry, () => onAdmitted(entry));
      this.identifyAll();
    } else {
      this.#reject(entry, limit);
    }
  }

  close(): void {
    for (const { socket } of this.#waiting.keys()) {
      resetConnection(socket);
    }
    this.#waiting.clear();
    this.#hold.close();
  }

  becameIdle(connection: AcceptedConnection): void {
    connection.idleOrder = this.#nextOrder();
  }

  identify(connection: AcceptedConnection): Promise<void> | undefined {
    return this.#identification.identify(connection as CountedConnection);
  }

  identifyAll(): void {
    void this.#identification.identifyAll();
  }

  /** Ends the connection if it has more calls in flight than all of the runtime may have: rejecting them costs too much. */
  callRejected(connection: AcceptedConnection): void {
    if (connection.calls.size <= this.#share.calls) {
      this.#onSurplus(connection.runtimeProcess);
      return;
    }
    this.#suspect(connection);
    this.#leave(connection as CountedConnection);
    connection.evict();
  }

  #sortOut(entries: readonly CountedConnection[], owners: Owners): void {
    let hasMoved = false;
    for (const entry of entries) {
      const owner = owners.get(entry.socket);
      if (owner === "abandoned") {
        // The client has closed the connection. A login in progress on it counts as a login of the runtime.
        this.#end(entry);
      } else if (owner !== undefined && this.#limits.moveToRuntime(entry)) {
        hasMoved = true;
      }
    }
    if (hasMoved) {
      this.#endSurplus();
    }
    for (const entry of entries) {
      this.#admitWaiting(entry);
    }
  }

  /** Ends the connections of the runtime beyond its share. */
  #endSurplus(): void {
    const surplus = findSurplus(this.#limits.ofRuntime, this.#share);
    for (const entry of surplus) {
      this.#end(entry);
    }
    const last = surplus.at(-1);
    if (last !== undefined) {
      this.#suspect(last);
    }
  }

  #admitWaiting(entry: CountedConnection): void {
    const onAdmitted = this.#waiting.get(entry);
    if (onAdmitted === undefined) {
      return;
    }
    this.#waiting.delete(entry);
    if (entry.kind === "runtime" && this.#hold.size + this.open.size < this.#listener.connections) {
      this.#hold.begin(entry.socket, () => {
        if (this.#limits.tryJoin(entry, false) === undefined) {
          onAdmitted();
        } else {
          this.#suspect(entry);
          this.#end(entry);
        }
      });
      return;
    }
    const limit = this.#limits.tryJoin(entry, true);
    if (limit === undefined) {
      onAdmitted();
    } else {
      this.#reject(entry, limit);
    }
  }

  #suspect({ runtimeProcess }: AcceptedConnection): void {
    this.#suspiciousUntilMs = performance.now() + suspicionMs;
    this.#onSurplus(runtimeProcess);
  }

  #reject(entry: CountedConnection, limit: keyof ListenerLimits): void {
    this.#listener.onLimit(limit);
    this.#end(entry);
  }

  #end(entry: CountedConnection): void {
    this.#leave(entry);
    resetConnection(entry.socket);
  }

  #leave(entry: CountedConnection): void {
    this.#waiting.delete(entry);
    this.#identification.forget(entry);
    this.#limits.leave(entry);
  }
}

/** The connections of the runtime beyond its share. Those that were authenticated are the last to be among them. */
function findSurplus(
  ofRuntime: ReadonlySet<CountedConnection>,
  share: SharedTableOptions["share"],
): CountedConnection[] {
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

/**
 * After the runtime has exceeded its share, each of its new connections stays unread for a random time: on average `minHoldMs`,
 * or longer, so that at most `maxHeldPerMs` of them are released per millisecond. Its flows reconnect at once, and a connection of
 * an operator would otherwise wait behind thousands of theirs.
 */
const minHoldMs = 1_000;
const maxHeldPerMs = 0.5;

/** Connections that are not read for a while. */
class ConnectionHold {
  readonly #held = new Set<Socket>();

  get size(): number {
    return this.#held.size;
  }

  /** Calls back when the time of the connection is over, unless it has closed. */
  begin(socket: Socket, onEnd: () => void): void {
    this.#held.add(socket);
    const ms = Math.max(minHoldMs, this.#held.size / maxHeldPerMs) * 2 * Math.random();
    const timer = setTimeout(() => {
      this.#held.delete(socket);
      onEnd();
    }, ms);
    socket.once("close", () => {
      this.#held.delete(socket);
      clearTimeout(timer);
    });
  }

  /** Resets all of them. */
  close(): void {
    this.#held.forEach(resetConnection);
  }
}
