import type { Socket } from "node:net";
import type { ClientKind } from "../../auth/caller.ts";

/** A connection from its acceptance to its end. */
export type AcceptedConnection = {
  /** The TCP or Unix socket; with TLS, below the TLS socket. */
  readonly socket: Socket;
  /** `unix:` for a Unix socket. Remains available after the connection has closed. */
  readonly remoteAddress: string;
  /** `network` until it is found to be one of the runtime. */
  kind: ClientKind;
  /** The process of the runtime that made it; undefined: it is none of the runtime, or that process is not known any more. */
  runtimeProcess: number | undefined;
  /** Whether a call on it was authenticated. */
  isAuthenticated: boolean;
  /** The calls in flight. */
  calls: { readonly size: number };
  readonly acceptedMs: number;
  /** Position in the order in which connections were accepted or became idle. */
  idleOrder: number;
  /** Ends the connection while it is idle. */
  evict: () => void;
  readonly table: ConnectionTable;
};

/** A connection without calls, before it was served for the first time. */
export function createConnection(
  socket: Socket,
  remoteAddress: string,
  kind: ClientKind,
  table: ConnectionTable,
): AcceptedConnection {
  return {
    socket,
    remoteAddress,
    kind,
    runtimeProcess: undefined,
    isAuthenticated: false,
    calls: noCalls,
    acceptedMs: performance.now(),
    idleOrder: 0,
    evict: () => void socket.destroy(),
    table,
  };
}

const noCalls = { size: 0 };

/** The connections of a listener. */
export interface ConnectionTable {
  /** Determines the kind of a connection, if that is possible. */
  identify(connection: AcceptedConnection): Promise<void>;
  /** Starts `identify` for all connections. Called when there are many connections or calls. */
  identifyAll(): void;
  /** Ends a connection of the runtime with more calls in flight than all of its connections may have: rejecting them costs too much. */
  endSurplus(connection: AcceptedConnection): void;
  /** When a call was last rejected, or accepted in the reserve, because too many were in flight. */
  exhaustedMs: number;
  /** Must be called when the last call in flight has ended. */
  becameIdle(connection: AcceptedConnection): void;
}

/** The remote address of the connections to a Unix socket; the same word as in nginx's logs. */
export const unixAddress = "unix:";
