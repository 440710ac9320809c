import http, { type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { closeGracefully, type HttpProtocol } from "./connection.ts";
import { formatErrorResponse } from "./error-response.ts";
import { type ExchangeHandler, expectationError, repeatedFieldError } from "./exchange.ts";
import {
  createHttp1Connection,
  createHttp1Limits,
  currentExchange,
  endWhenIdle,
  hasEarlierExchanges,
  type Http1Connection,
  limitOf,
} from "./http1-connection.ts";
import { Http1Exchange } from "./http1-exchange.ts";
import type { ListenerOptions } from "./listener-options.ts";

/** HTTP/1.1. Its server listens on the port of both protocols. */
export function createHttp1(
  handler: ExchangeHandler,
  options: ListenerOptions,
): HttpProtocol & { server: http.Server } {
  const connections = new Map<Socket, Http1Connection>();
  let isClosing = false;

  const serve = (request: http.IncomingMessage, response: http.ServerResponse, expectsContinue: boolean): void => {
    const { socket } = request;
    const connection = connections.get(socket);
    // A request without any response was not processed, and the client may retry it elsewhere.
    if (connection === undefined || connection.isEnded) {
      return;
    }
    const exchange = new Http1Exchange(request, response, connection, expectsContinue);
    connection.exchanges.push(exchange);
    connection.served++;
    // Node emits all pipelined requests that have arrived, without a limit on pending responses.
    if (connection.exchanges.length > options.callsPerConnection) {
      options.onLimit("callsPerConnection");
      socket.destroy();
      return;
    }
    handler(exchange, repeatedFieldError(request.rawHeaders) ?? expectationError(request.headers));
  };

  const reject = (error: NodeJS.ErrnoException, socket: Socket): void => {
    const current = currentExchange(connections.get(socket));
    const status = rejectConnection(error, socket, current?.response);
    if (status !== undefined) {
      if (current?.observer === undefined) {
        options.onMalformed(status);
      } else {
        current.observer.interrupted(status);
      }
    }
  };

  const server = createNodeServer(options);
  server.on("request", (request, response) => serve(request, response, false));
  server.on("checkContinue", (request, response) => serve(request, response, true));
  server.on("checkExpectation", (request, response) => serve(request, response, false));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const connection = connections.get(socket as Socket);
    // The client sends nothing more, or not in time; earlier responses may take as long as they need.
    const cannotWait = error.code === "ERR_HTTP_REQUEST_TIMEOUT" || socket.readableEnded;
    if (connection?.malformed !== undefined && !cannotWait) {
      // Node keeps parsing and reports an error for everything that follows.
      return;
    }
    const limit = limitOf(error, currentExchange(connection));
    if (limit !== undefined) {
      options.onLimit(limit);
    }
    if (connection === undefined || !socket.writable || !hasEarlierExchanges(connection)) {
      reject(error, socket as Socket);
    } else if (cannotWait) {
      socket.destroy();
    } else {
      connection.malformed = error;
    }
  });
  const serveHttp1 = takeConnectionListener(server);

  const check = createHttp1Limits(options, reject);
  const state = {
    isLastResponse: () => isClosing || options.drainSignal.aborted,
    isClosing: () => isClosing,
    reject,
  };
  return {
    server,
    serve(socket, origin) {
      const connection = createHttp1Connection(socket, origin, state);
      connections.set(socket, connection);
      socket.once("close", () => connections.delete(socket));
      // Node calls this after a response that ends the connection, even if the request was not read completely.
      socket.destroySoon = () => closeGracefully(socket);
      serveHttp1.call(server, socket);
      if (isClosing) {
        endWhenIdle(socket, connection);
      }
    },
    retire(socket) {
      const connection = connections.get(socket);
      if (connection !== undefined) {
        connection.isRetired = true;
      }
    },
    enforceLimits(nowMs) {
      for (const [socket, connection] of connections) {
        check(socket, connection, nowMs);
      }
    },
    async close() {
      isClosing = true;
      // Requests that have already arrived are read first, which takes up to two turns of the event loop.
      await setImmediate();
      await setImmediate();
      for (const [socket, connection] of connections) {
        endWhenIdle(socket, connection);
      }
    },
  };
}

/** Removes Node's own handler of new connections, and returns it to be called when the protocol of one was detected. */
function takeConnectionListener(server: http.Server): (this: http.Server, socket: Socket) => void {
  const [listener, ...others] = server.listeners("connection");
  if (listener === undefined || others.length > 0) {
    throw new Error(
      "HTTP/1.1 can't be served: this version of Node.js handles new connections otherwise: use Node.js 26",
    );
  }
  server.removeAllListeners("connection");
  return listener;
}

function createNodeServer(options: ListenerOptions): http.Server {
  const server = http.createServer({
    noDelay: true,
    // Requests without a body emit no stream events (docs/performance-analysis.md).
    optimizeEmptyRequests: true,
    maxHeaderSize: options.headerBytes,
    headersTimeout: Math.min(options.headersTimeoutMs, options.requestTimeoutMs),
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.idleTimeoutMs,
    // With Node's default of 30 s, a timeout of 20 s could take up to 50 s.
    connectionsCheckingInterval: Math.min(1_000, options.headersTimeoutMs, options.requestTimeoutMs),
    // RFC 9110, section 7.8: a server may ignore Upgrade and respond over HTTP/1.1.
    shouldUpgradeCallback: () => false,
  });
  server.maxHeadersCount = options.headerFields;
  // Node's implementation resets connections whose next request is in transit; Protocol.close() ends them gracefully.
  server.closeIdleConnections = () => {};
  return server;
}

/**
 * Responds to bytes that are not a valid HTTP/1 request, or to a request that timed out, and ends the connection.
 * Returns the status; undefined if no response was sent, because the connection is closed or `current` has begun.
 */
function rejectConnection(
  error: NodeJS.ErrnoException,
  socket: Socket,
  current: ServerResponse | undefined,
): number | undefined {
  // A second response must not follow a partial one.
  if (!socket.writable || current?.headersSent === true) {
    socket.destroy();
    return undefined;
  }
  const [status, message] = responseTo(error);
  socket.write(formatErrorResponse(status, message));
  // The parser has failed: further bytes are discarded.
  socket.removeAllListeners("data");
  socket.resume();
  closeGracefully(socket);
  return status;
}

function responseTo(error: NodeJS.ErrnoException): [status: number, message: string] {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return [431, "the header of the request is too large"];
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return [413, "the chunk extensions of the body are too large"];
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return [408, "the request did not arrive in time"];
    default:
      return [400, "this is not a valid HTTP/1.1 request"];
  }
}
