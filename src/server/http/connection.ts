import type { Socket } from "node:net";
import type { ClientKind } from "../../auth/caller.ts";

export type AcceptedConnection = {
  /** The TCP or Unix socket; with TLS, below the TLS socket. */
  readonly socket: Socket;
  /** `unix:` for a Unix socket. Remains available after the connection has closed. */
  readonly remoteAddress: string;
  readonly kind: ClientKind;
  isAuthenticated: boolean;
  calls: { readonly size: number };
  readonly acceptedMs: number;
  /** Position in the order in which connections were accepted or became idle. */
  idleOrder: number;
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
    isAuthenticated: false,
    calls: noCalls,
    acceptedMs: performance.now(),
    idleOrder: 0,
    evict: () => void socket.destroy(),
    table,
  };
}

const noCalls = { size: 0 };

/** The connections of a listener, limited in total and per client. */
export interface ConnectionTable {
  readonly open: ReadonlySet<AcceptedConnection>;
  /**
   * Calls back with the connection if there is room for it, otherwise resets it. Room is made by closing connections that are
   * idle.
   */
  admit(socket: Socket, onAdmitted: (connection: AcceptedConnection) => void): void;
  /** The time of the last call that was rejected, or accepted in the reserve, because too many were in flight. */
  exhaustedMs: number;
  /** Must be called when the last call in flight has ended. */
  becameIdle(connection: AcceptedConnection): void;
}

/** The remote address of the connections to a Unix socket; the same word as in nginx's logs. */
export const unixAddress = "unix:";

/** One of the two HTTP versions, on connections whose protocol has been detected. */
export interface HttpProtocol {
  /** `socket` differs from the connection's with TLS. */
  serve(socket: Socket, connection: AcceptedConnection): void;
  /** Makes the connection take no new calls, after notifying its client. */
  retire(socket: Socket): void;
  /** Ends connections and streams that exceed a limit. Called periodically. */
  enforceLimits(nowMs: number): void;
  /**
   * Takes no new calls, and lets calls in flight finish. Resolves when all clients were notified that their connections
   * close, or the time for that has passed.
   */
  close(): Promise<void>;
}

/** The time a client has to read the last response, or the notice that the connection closes. */
export const gracefulCloseMs = 1_000;

/**
 * Ends a connection whose client may still be sending. Closing a socket with unread bytes resets it, which could
 * discard the response before the client has read it.
 */
export function closeGracefully(socket: Socket): void {
  if (socket.writable) {
    socket.end();
  }
  socket.once("end", () => socket.destroy());
  const timer = setTimeout(() => socket.destroy(), gracefulCloseMs);
  socket.once("close", () => clearTimeout(timer));
}

/**
 * Closes a connection at once, over TCP by a reset. A socket that is ending can't be reset, in which case Node would neither close it nor
 * be able to exit later; a Unix socket can't either.
 */
export function resetConnection(socket: Socket): void {
  if (socket.writableEnded || socket.remoteFamily === undefined) {
    socket.destroy();
  } else {
    socket.resetAndDestroy();
  }
}
