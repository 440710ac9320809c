import http from "node:http";
import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { refuseConnection } from "./client-error.ts";
import type { ExchangeHandler } from "./exchange.ts";
import { expectationError } from "./expectation.ts";
import { Http1Exchange, type Http1Exchanges } from "./http1-exchange.ts";
import { closeGracefully, gracefulCloseMs } from "./graceful-close.ts";
import { errorResponse } from "../error-response.ts";
import type { ListenerLimits, ListenerOptions } from "./options.ts";
import { createThroughputMonitor, type ThroughputWindow } from "./throughput.ts";
import type { Protocol } from "./protocol.ts";
import { readSocketProgress } from "./socket-progress.ts";

type Connection = Http1Exchanges & {
  /** The one that was accepted, under TLS. */
  readonly accepted: Socket;
  /** Whose response is not finished, in the order of their requests; the first one is being served. */
  readonly exchanges: Set<Http1Exchange>;
  /** How many there were so far. */
  served: number;
  /** When there was last something to do, and how many had been served by then. */
  busyMs: number;
  servedThen: number;
  readonly body: ThroughputWindow;
  readonly answer: ThroughputWindow;
  /** How much had been received when it last became idle. */
  idleBytes: number;
  /** Its next response is its last. */
  isOld: boolean;
  /** It can send no more responses. */
  hasEnded: boolean;
  /** What is wrong with the last request, which is answered when those before it are. */
  malformed: NodeJS.ErrnoException | undefined;
};

/** HTTP/1.1; its server owns the port of both protocols. */
export function createHttp1(handler: ExchangeHandler, options: ListenerOptions): Protocol & { server: http.Server } {
  const connections = new Map<Socket, Connection>();
  const pace = createThroughputMonitor(options);
  let isClosing = false;

  const serve = (request: http.IncomingMessage, response: http.ServerResponse, expectsContinue: boolean): void => {
    const { socket } = request;
    const connection = connections.get(socket);
    // What gets no answer was not begun here, and may be repeated elsewhere.
    if (connection === undefined || connection.hasEnded) {
      return;
    }
    const exchange = new Http1Exchange(request, response, connection, expectsContinue);
    connection.exchanges.add(exchange);
    connection.served++;
    // Node parses, and so serves, all requests that have arrived, however many answers are due.
    if (connection.exchanges.size > options.callsPerConnection) {
      options.onLimit("callsPerConnection");
      socket.destroy();
      return;
    }
    handler(exchange, hasSeveralHosts(request) ? severalHosts() : expectationError(request.headers));
  };

  const server = http.createServer({
    noDelay: true,
    maxHeaderSize: options.headerBytes,
    headersTimeout: Math.min(options.headersTimeoutMs, options.requestTimeoutMs),
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    // At Node's default of 30 s a timeout of 20 s would come after up to 50.
    connectionsCheckingInterval: Math.min(1_000, options.headersTimeoutMs, options.requestTimeoutMs),
    // RFC 9110, section 7.8: a server may ignore Upgrade and answer as HTTP/1.1.
    shouldUpgradeCallback: () => false,
  });
  server.maxHeadersCount = options.headerFields;
  server.on("request", (request, response) => serve(request, response, false));
  server.on("checkContinue", (request, response) => serve(request, response, true));
  server.on("checkExpectation", (request, response) => serve(request, response, false));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const connection = connections.get(socket as Socket);
    // Nothing more is to come, or in time, while the responses before it may take as long as they like.
    const cannotWait = error.code === "ERR_HTTP_REQUEST_TIMEOUT" || socket.readableEnded;
    if (connection?.malformed !== undefined && !cannotWait) {
      // Node parses on, and finds fault with all that follows.
      return;
    }
    const limit = limitOf(error, currentOf(connection));
    if (limit !== undefined) {
      options.onLimit(limit);
    }
    if (connection === undefined || !socket.writable || !hasEarlier(connection)) {
      refuse(error, socket as Socket);
    } else if (cannotWait) {
      socket.destroy();
    } else {
      connection.malformed = error;
    }
  });
  // Node's own resets connections whose next request is on its way; close() ends them all in time.
  server.closeIdleConnections = () => {};
  const [serveHttp1] = server.listeners("connection") as [(this: http.Server, socket: Socket) => void];
  server.removeAllListeners("connection");

  function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    const current = currentOf(connections.get(socket));
    const status = refuseConnection(error, socket, current?.response);
    if (status !== undefined) {
      if (current?.observer === undefined) {
        options.onMalformed(status);
      } else {
        current.observer.interrupted(status);
      }
    }
  }

  function sweepOne(socket: Socket, connection: Connection, nowMs: number): void {
    const current = currentOf(connection);
    if (current !== undefined || connection.served > connection.servedThen) {
      connection.busyMs = nowMs;
      connection.servedThen = connection.served;
    } else if (nowMs - connection.busyMs > options.idleTimeoutMs + options.headersTimeoutMs) {
      // Empty lines between requests keep Node's own timers from firing (RFC 9112, section 2.2, has them ignored).
      options.onLimit("idleTimeoutMs");
      socket.destroy();
      return;
    }
    // Once an answer has begun, the two may talk at any pace.
    const isArriving =
      current !== undefined &&
      !current.response.headersSent &&
      !current.request.complete &&
      current.request.readableLength === 0;
    if (!isArriving) {
      pace.rest(connection.body, socket.bytesRead, nowMs);
    } else if (pace.isTooSlow(connection.body, socket.bytesRead, nowMs)) {
      options.onLimit("stallTimeoutMs");
      refuse(Object.assign(new Error(), { code: "ERR_HTTP_REQUEST_TIMEOUT" }), socket);
      return;
    }
    const { sentBytes, unsentBytes } = readSocketProgress(connection.accepted);
    if (socket.writableLength === 0 && unsentBytes === 0) {
      pace.rest(connection.answer, sentBytes, nowMs);
    } else if (pace.isTooSlow(connection.answer, sentBytes, nowMs)) {
      options.onLimit("stallTimeoutMs");
      socket.destroy();
    }
  }

  function end(socket: Socket, connection: Connection): void {
    connection.hasEnded = true;
    closeGracefully(socket);
  }

  /** A response under way ends the connection by itself, and a request that has begun to arrive is served if it comes soon. */
  function endWhenIdle(socket: Socket, connection: Connection): void {
    const endIdle = (): void => {
      if (connection.exchanges.size === 0 && !connection.hasEnded) {
        end(socket, connection);
      }
    };
    if (connection.exchanges.size === 0 && socket.bytesRead > connection.idleBytes) {
      const timer = setTimeout(endIdle, gracefulCloseMs);
      socket.once("close", () => clearTimeout(timer));
    } else {
      endIdle();
    }
  }

  return {
    server,
    serve(socket, accepted) {
      const nowMs = performance.now();
      const connection: Connection = {
        accepted,
        remoteAddress: accepted.remoteAddress ?? "",
        exchanges: new Set(),
        served: 0,
        busyMs: nowMs,
        servedThen: 0,
        body: { startMs: nowMs, bytes: 0 },
        answer: { startMs: nowMs, bytes: 0 },
        idleBytes: 0,
        isOld: false,
        hasEnded: false,
        malformed: undefined,
        mustClose: () => isClosing || options.leaving.aborted || connection.isOld,
        closed(exchange) {
          connection.exchanges.delete(exchange);
          if (connection.malformed !== undefined && socket.writable && !hasEarlier(connection)) {
            refuse(connection.malformed, socket);
            return;
          }
          if (connection.exchanges.size === 0) {
            connection.idleBytes = socket.bytesRead;
            if (isClosing && !connection.hasEnded && !socket.destroyed) {
              // The head of the response may have been sent before, with the promise to keep the connection.
              end(socket, connection);
            }
          }
        },
      };
      connections.set(socket, connection);
      socket.once("close", () => connections.delete(socket));
      // Node calls this after a response that ends the connection, whether the request is all read or not.
      socket.destroySoon = () => closeGracefully(socket);
      serveHttp1.call(server, socket);
      if (isClosing) {
        endWhenIdle(socket, connection);
      }
    },
    retire(socket) {
      const connection = connections.get(socket);
      if (connection !== undefined) {
        connection.isOld = true;
      }
    },
    sweep(nowMs) {
      for (const [socket, connection] of connections) {
        sweepOne(socket, connection, nowMs);
      }
    },
    async close() {
      isClosing = true;
      // Requests that have come by now are read first; the event loop may be past that in this turn.
      await setImmediate();
      await setImmediate();
      for (const [socket, connection] of connections) {
        endWhenIdle(socket, connection);
      }
    },
  };
}

function currentOf(connection: Connection | undefined): Http1Exchange | undefined {
  return connection?.exchanges.values().next().value;
}

/** Whether responses are due to requests before the one that is arriving (RFC 9112, section 9.3.2: they go first). */
function hasEarlier({ exchanges }: Connection): boolean {
  return exchanges.size > 1 || exchanges.values().next().value?.request.complete === true;
}

function hasSeveralHosts({ rawHeaders }: http.IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    hosts += name?.length === 4 && name.toLowerCase() === "host" ? 1 : 0;
  }
  return hosts > 1;
}

/** RFC 9112, section 3.2: which of them counts may differ between the recipients on the way. */
const severalHosts = () => errorResponse(400, "there must be one Host field", { headers: { connection: "close" } });

function limitOf(
  { code }: NodeJS.ErrnoException,
  current: Http1Exchange | undefined,
): keyof ListenerLimits | undefined {
  switch (code) {
    // Of fields too many, too.
    case "HPE_HEADER_OVERFLOW":
      return "headerBytes";
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return current === undefined ? "headersTimeoutMs" : "requestTimeoutMs";
    default:
      return undefined;
  }
}
