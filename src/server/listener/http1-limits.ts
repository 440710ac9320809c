import type { Socket } from "node:net";
import { shortBodyTimeoutMs } from "./exchange.ts";
import { currentExchange, type Http1Connection } from "./http1-connection.ts";
import type { Http1Exchange } from "./http1-exchange.ts";
import type { ListenerLimits, ListenerOptions } from "./options.ts";
import { readSocketProgress } from "./socket-progress.ts";
import { createThroughputMonitor } from "./throughput.ts";

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
