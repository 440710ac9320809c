import http, { type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { type AcceptedConnection, closeGracefully, type HttpProtocol } from "./connection.ts";
import { formatErrorResponse } from "./error-response.ts";
import { type ExchangeHandler, expectationError, repeatedFieldError } from "./exchange.ts";
import {
  type CheckHttp1Connection,
  createHttp1Connection,
  createHttp1Limits,
  currentExchange,
  endWhenIdle,
  hasEarlierExchanges,
  type Http1Connection,
  type Http1ServerState,
  limitOf,
} from "./http1-connection.ts";
import { Http1Exchange } from "./http1-exchange.ts";
import type { ListenerOptions } from "./listener-options.ts";

/** HTTP/1.1. Its server listens on the port of both protocols. */
export class Http1 implements HttpProtocol {
  readonly server: http.Server;
  readonly #handler: ExchangeHandler;
  readonly #options: ListenerOptions;
  readonly #connections = new Map<Socket, Http1Connection>();
  /** Node's own handler of new connections. */
  readonly #accept: (this: http.Server, socket: Socket) => void;
  readonly #check: CheckHttp1Connection;
  readonly #state: Http1ServerState = {
    isLastResponse: () => this.#isClosing || this.#options.drainSignal.aborted,
    isClosing: () => this.#isClosing,
    reject: (error, socket) => this.#reject(error, socket),
  };
  #isClosing = false;

  constructor(handler: ExchangeHandler, options: ListenerOptions) {
    this.#handler = handler;
    this.#options = options;
    this.#check = createHttp1Limits(options, this.#state.reject);
    this.server = createNodeServer(options);
    this.server.on("request", (request, response) => this.#handle(request, response, false));
    this.server.on("checkContinue", (request, response) => this.#handle(request, response, true));
    this.server.on("checkExpectation", (request, response) => this.#handle(request, response, false));
    this.server.on("clientError", (error, socket) => this.#handleClientError(error, socket as Socket));
    this.#accept = takeConnectionListener(this.server);
  }

  serve(socket: Socket, origin: AcceptedConnection): void {
    const connection = createHttp1Connection(socket, origin, this.#state);
    this.#connections.set(socket, connection);
    socket.once("close", () => this.#connections.delete(socket));
    // Node calls this after a response that ends the connection, even if the request was not read completely.
    socket.destroySoon = () => closeGracefully(socket);
    this.#accept.call(this.server, socket);
    if (this.#isClosing) {
      endWhenIdle(socket, connection);
    }
  }

  retire(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined) {
      connection.isRetired = true;
    }
  }

  enforceLimits(nowMs: number): void {
    for (const [socket, connection] of this.#connections) {
      this.#check(socket, connection, nowMs);
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    // Requests that have already arrived are read first, which takes up to two turns of the event loop.
    await setImmediate();
    await setImmediate();
    for (const [socket, connection] of this.#connections) {
      endWhenIdle(socket, connection);
    }
  }

  #handle(request: http.IncomingMessage, response: http.ServerResponse, expectsContinue: boolean): void {
    const { socket } = request;
    const connection = this.#connections.get(socket);
    // A request without any response was not processed, and the client may retry it elsewhere.
    if (connection === undefined || connection.isEnded) {
      return;
    }
    const exchange = new Http1Exchange(request, response, connection, expectsContinue);
    connection.exchanges.push(exchange);
    connection.served++;
    // Node emits all pipelined requests that have arrived, without a limit on pending responses.
    if (connection.exchanges.length > this.#options.callsPerConnection) {
      this.#options.onLimit("callsPerConnection");
      socket.destroy();
      return;
    }
    const handler = this.#handler;
    handler(exchange, repeatedFieldError(request.rawHeaders) ?? expectationError(request.headers));
  }

  #handleClientError(error: NodeJS.ErrnoException, socket: Socket): void {
    const connection = this.#connections.get(socket);
    // The client sends nothing more, or not in time; earlier responses may take as long as they need.
    const cannotWait = error.code === "ERR_HTTP_REQUEST_TIMEOUT" || socket.readableEnded;
    if (connection?.malformed !== undefined && !cannotWait) {
      // Node keeps parsing and reports an error for everything that follows.
      return;
    }
    const limit = limitOf(error, currentExchange(connection));
    if (limit !== undefined) {
      this.#options.onLimit(limit);
    }
    if (connection === undefined || !socket.writable || !hasEarlierExchanges(connection)) {
      this.#reject(error, socket);
    } else if (cannotWait) {
      socket.destroy();
    } else {
      connection.malformed = error;
    }
  }

  #reject(error: NodeJS.ErrnoException, socket: Socket): void {
    const current = currentExchange(this.#connections.get(socket));
    const status = rejectConnection(error, socket, current?.response);
    if (status !== undefined) {
      if (current?.observer === undefined) {
        this.#options.onMalformed(status);
      } else {
        current.observer.interrupted(status);
      }
    }
  }
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
    // Requests without a body emit no stream events.
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
