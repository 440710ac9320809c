import type { Socket } from "node:net";
import { type AcceptedConnection, closeGracefully, gracefulCloseMs } from "./connection.ts";
import { shortBodyTimeoutMs } from "./exchange.ts";
import type { Http1ConnectionContext, Http1Exchange } from "./http1-exchange.ts";
import type { ListenerLimits, ListenerOptions } from "./listener-options.ts";
import { createThroughputMonitor, readSocketProgress, type ThroughputWindow } from "./throughput.ts";

export type Http1Connection = Http1ConnectionContext & {
  /** The accepted TCP socket; differs from the served socket with TLS. */
  readonly accepted: Socket;
  /** Exchanges whose response is not finished, in request order; the first one is being served. */
  readonly exchanges: Http1Exchange[];
  served: number;
  /** The time at which the connection was last busy, and the value of `served` then. */
  busyMs: number;
  servedWhenBusy: number;
  readonly requestBody: ThroughputWindow;
  readonly response: ThroughputWindow;
  /** Bytes received by the time it last became idle. */
  idleBytes: number;
  isRetired: boolean;
  isEnded: boolean;
  /** The parser error of the last request; it is responded to after the requests before it. */
  malformed: NodeJS.ErrnoException | undefined;
};

/** The exchange being served; undefined if the connection is idle. */
export function currentExchange(connection: Http1Connection | undefined): Http1Exchange | undefined {
  return connection?.exchanges[0];
}

/**
 * True if responses are pending for requests before the one that is arriving. They are sent first (RFC 9112, section
 * 9.3.2).
 */
export function hasEarlierExchanges({ exchanges }: Http1Connection): boolean {
  return exchanges.length > 1 || exchanges[0]?.request.complete === true;
}

export type Http1ServerState = {
  /** True if the next response must close the connection. */
  readonly isLastResponse: () => boolean;
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

/** Checks one connection against the timeouts, and ends it if it exceeds one. */
export type CheckHttp1Connection = (socket: Socket, connection: Http1Connection, nowMs: number) => void;

/** `reject` responds with the error to the current request and ends the connection. */
export function createHttp1Limits(
  options: ListenerOptions,
  reject: (error: NodeJS.ErrnoException, socket: Socket) => void,
): CheckHttp1Connection {
  const throughput = createThroughputMonitor(options);

  const isIdleTooLong = (connection: Http1Connection, nowMs: number): boolean => {
    if (connection.exchanges.length > 0 || connection.served > connection.servedWhenBusy) {
      connection.busyMs = nowMs;
      connection.servedWhenBusy = connection.served;
      return false;
    }
    // Empty lines between requests, which RFC 9112, section 2.2, ignores, reset Node's own timers.
    return nowMs - connection.busyMs > options.idleTimeoutMs + options.headersTimeoutMs;
  };

  return (socket, connection, nowMs) => {
    if (isIdleTooLong(connection, nowMs)) {
      options.onLimit("idleTimeoutMs");
      socket.destroy();
      return;
    }
    const current = currentExchange(connection);
    if (!isBodyArriving(current)) {
      throughput.reset(connection.requestBody, socket.bytesRead, nowMs);
    } else if (
      throughput.isTooSlow(connection.requestBody, socket.bytesRead, nowMs) ||
      (current.hasShortBody && nowMs - connection.requestBody.startMs > shortBodyTimeoutMs)
    ) {
      options.onLimit("stallTimeoutMs");
      reject(Object.assign(new Error(), { code: "ERR_HTTP_REQUEST_TIMEOUT" }), socket);
      return;
    }
    const { sentBytes, unsentBytes } = readSocketProgress(connection.accepted);
    if (socket.writableLength === 0 && unsentBytes === 0) {
      throughput.reset(connection.response, sentBytes, nowMs);
    } else if (throughput.isTooSlow(connection.response, sentBytes, nowMs)) {
      options.onLimit("stallTimeoutMs");
      socket.destroy();
    }
  };
}

/** The service waits for the request body. After the response has begun, the rate of the body is not limited. */
function isBodyArriving(current: Http1Exchange | undefined): current is Http1Exchange {
  return (
    current !== undefined &&
    !current.response.headersSent &&
    !current.request.complete &&
    current.request.readableLength === 0
  );
}

/** The limit behind an error of Node's HTTP server, if any. */
export function limitOf(
  { code }: NodeJS.ErrnoException,
  current: Http1Exchange | undefined,
): keyof ListenerLimits | undefined {
  switch (code) {
    // Also raised for too many fields.
    case "HPE_HEADER_OVERFLOW":
      return "headerBytes";
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return current === undefined ? "headersTimeoutMs" : "requestTimeoutMs";
    default:
      return undefined;
  }
}
