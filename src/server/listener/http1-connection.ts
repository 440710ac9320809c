import type { Socket } from "node:net";
import type { AcceptedConnection } from "./accepted-connection.ts";
import type { Http1ConnectionContext, Http1Exchange } from "./http1-exchange.ts";
import { closeGracefully, gracefulCloseMs } from "./graceful-close.ts";
import type { ThroughputWindow } from "./throughput.ts";

export type Http1Connection = Http1ConnectionContext & {
  /** The accepted TCP socket; differs from the served socket with TLS. */
  readonly accepted: Socket;
  /** Exchanges whose response is not finished, in request order; the first one is being served. */
  readonly exchanges: Http1Exchange[];
  /** Number of exchanges so far. */
  served: number;
  /** When the connection was last busy, and the value of `served` at that time. */
  busyMs: number;
  servedWhenBusy: number;
  readonly requestBody: ThroughputWindow;
  readonly response: ThroughputWindow;
  /** Bytes received by the time it last became idle. */
  idleBytes: number;
  /** The next response is the last one. */
  isRetired: boolean;
  /** No more responses can be sent. */
  isEnded: boolean;
  /** The parser error of the last request; it is responded to after the requests before it. */
  malformed: NodeJS.ErrnoException | undefined;
};

/** The exchange being served; undefined if the connection is idle. */
export function currentExchange(connection: Http1Connection | undefined): Http1Exchange | undefined {
  return connection?.exchanges[0];
}

/**
 * Whether responses are pending for requests before the one that is arriving. They are sent first (RFC 9112, section
 * 9.3.2).
 */
export function hasEarlierExchanges({ exchanges }: Http1Connection): boolean {
  return exchanges.length > 1 || exchanges[0]?.request.complete === true;
}

export type Http1ServerState = {
  /** Whether the next response must close the connection. */
  readonly isLastResponse: () => boolean;
  /** Whether the server closes. */
  readonly isClosing: () => boolean;
  /** Responds to a malformed request and ends the connection. */
  readonly reject: (error: NodeJS.ErrnoException, socket: Socket) => void;
};

export function createHttp1Connection(
  socket: Socket,
  origin: AcceptedConnection,
  { isLastResponse, isClosing, reject }: Http1ServerState,
): Http1Connection {
  const nowMs = performance.now();
  const connection: Http1Connection = {
    accepted: origin.socket,
    origin,
    exchanges: [],
    served: 0,
    busyMs: nowMs,
    servedWhenBusy: 0,
    requestBody: { startMs: nowMs, bytes: 0 },
    response: { startMs: nowMs, bytes: 0 },
    idleBytes: 0,
    isRetired: false,
    isEnded: false,
    malformed: undefined,
    mustClose: () => isLastResponse() || connection.isRetired,
    closed(exchange) {
      const { exchanges } = connection;
      // Responses end in order, except when the connection is closed.
      const at = exchanges.indexOf(exchange);
      if (at !== -1) {
        exchanges.splice(at, 1);
      }
      if (connection.malformed !== undefined && socket.writable && !hasEarlierExchanges(connection)) {
        reject(connection.malformed, socket);
        return;
      }
      if (exchanges.length === 0) {
        origin.table.becameIdle(origin);
        connection.idleBytes = socket.bytesRead;
        if (isClosing() && !connection.isEnded && !socket.destroyed) {
          // The response head may have been sent before closing began, without `Connection: close`.
          endConnection(socket, connection);
        }
      }
    },
  };
  origin.calls = {
    get size() {
      return connection.exchanges.length;
    },
  };
  return connection;
}

/**
 * Ends an idle connection. A pending response ends the connection itself, and a request that has begun to arrive is
 * served if it completes within `gracefulCloseMs`.
 */
export function endWhenIdle(socket: Socket, connection: Http1Connection): void {
  const endIdle = (): void => {
    if (connection.exchanges.length === 0 && !connection.isEnded) {
      endConnection(socket, connection);
    }
  };
  if (connection.exchanges.length === 0 && socket.bytesRead > connection.idleBytes) {
    const timer = setTimeout(endIdle, gracefulCloseMs);
    socket.once("close", () => clearTimeout(timer));
  } else {
    endIdle();
  }
}

function endConnection(socket: Socket, connection: Http1Connection): void {
  connection.isEnded = true;
  closeGracefully(socket);
}
