import http from "node:http";
import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { refuseConnection } from "./client-error.ts";
import { refuseExpectation, serveWhenContinued } from "./expectation.ts";
import { linger, lingerMs } from "./linger.ts";
import { sendRefusal } from "../refusal.ts";
import type { RequestHandler } from "./request-handler.ts";
import { responseOn } from "./response-on.ts";
import type { ListenerLimits, ListenerOptions } from "./options.ts";
import { createPace, type Window } from "./pace.ts";
import type { Protocol } from "./protocol.ts";
import { sentOn } from "./wire.ts";

type Connection = {
  /** The one that was accepted, under TLS. */
  readonly accepted: Socket;
  /** Requests without a finished response, and all so far. */
  calls: number;
  served: number;
  /** When there was last something to do, and how many had been served by then. */
  busyMs: number;
  servedThen: number;
  readonly body: Window;
  readonly answer: Window;
  /** What had come of it when it last fell idle. */
  idleBytes: number;
  /** Its next response is its last. */
  isOld: boolean;
  /** It can send no more responses. */
  hasEnded: boolean;
};

/** HTTP/1.1; its server owns the port of both protocols. */
export function createHttp1(handler: RequestHandler, options: ListenerOptions): Protocol & { server: http.Server } {
  const connections = new Map<Socket, Connection>();
  const pace = createPace(options);
  let isClosing = false;

  class Response extends http.ServerResponse {
    /** Whose it is, once a handler serves it. */
    served: Connection | undefined;

    override writeHead(status: number, reason?: unknown, headers?: unknown): this {
      if (isClosing || options.leaving.aborted || this.served?.isOld === true) {
        this.shouldKeepAlive = false;
      }
      return super.writeHead(status, reason as string, headers as http.OutgoingHttpHeaders);
    }

    override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
      super.end(chunk, encoding as BufferEncoding, callback as () => void);
      // Node itself reads away the rest of a body only where no one has begun to read it.
      if (!this.req.complete || this.req.readableLength > 0) {
        this.req.resume();
      }
      return this;
    }

    /** Node calls this when a response is finished. */
    override detachSocket(socket: Socket): void {
      super.detachSocket(socket);
      const connection = this.served;
      if (connection === undefined) {
        return;
      }
      connection.calls--;
      if (connection.calls === 0) {
        connection.idleBytes = socket.bytesRead;
        if (isClosing) {
          // Its head may have left before, with the promise to keep the connection.
          end(socket, connection);
        }
      }
    }
  }

  /** A handler that serves no more than a connection may ask for. */
  const limited =
    (serve: RequestHandler): RequestHandler =>
    (request, response) => {
      const connection = connections.get(request.socket);
      if (connection?.hasEnded === true) {
        // Whoever gets no answer may repeat what was not begun here.
        return;
      }
      if (connection !== undefined) {
        (response as Response).served = connection;
        connection.served++;
        connection.calls++;
        // Node parses, and so serves, all requests that have come, however many answers are due.
        if (connection.calls > options.callsPerConnection) {
          options.onLimit("callsPerConnection");
          request.socket.destroy();
          return;
        }
      }
      if (hasSeveralHosts(request)) {
        // RFC 9112, section 3.2: which of them counts, others on the way may see otherwise.
        sendRefusal(response, 400, "there must be one Host field", { Connection: "close" });
        return;
      }
      serve(request, response);
    };

  const server = http.createServer({
    ServerResponse: Response,
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
  const { observer } = options;
  server.on("request", observer.observe(limited(handler)));
  server.on("checkContinue", observer.observe(limited(serveWhenContinued(handler))));
  server.on("checkExpectation", observer.observe(limited(refuseExpectation)));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const limit = limitOf(error, socket as Socket);
    if (limit !== undefined) {
      options.onLimit(limit);
    }
    refuse(error, socket as Socket);
  });
  // Node's own resets connections whose next request is on its way; close() ends them all in time.
  server.closeIdleConnections = () => {};
  const [serveHttp1] = server.listeners("connection") as [(this: http.Server, socket: Socket) => void];
  server.removeAllListeners("connection");

  function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
    const brokenInto = responseOn(socket);
    const status = refuseConnection(error, socket);
    if (status !== undefined) {
      observer.malformed(status, brokenInto);
    }
  }

  function sweepOne(socket: Socket, connection: Connection, nowMs: number): void {
    const response = responseOn(socket);
    if (response !== undefined || connection.served > connection.servedThen) {
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
      response !== undefined && !response.headersSent && !response.req.complete && response.req.readableLength === 0;
    if (!isArriving) {
      pace.rest(connection.body, socket.bytesRead, nowMs);
    } else if (pace.isTooSlow(connection.body, socket.bytesRead, nowMs)) {
      options.onLimit("stallTimeoutMs");
      refuse(Object.assign(new Error(), { code: "ERR_HTTP_REQUEST_TIMEOUT" }), socket);
      return;
    }
    const { sentBytes, unsentBytes } = sentOn(connection.accepted);
    if (socket.writableLength === 0 && unsentBytes === 0) {
      pace.rest(connection.answer, sentBytes, nowMs);
    } else if (pace.isTooSlow(connection.answer, sentBytes, nowMs)) {
      options.onLimit("stallTimeoutMs");
      socket.destroy();
    }
  }

  function end(socket: Socket, connection: Connection): void {
    connection.hasEnded = true;
    linger(socket);
  }

  /** What is under way ends the connection by itself, and a request that has begun to come is served if it comes soon. */
  function endWhenIdle(socket: Socket, connection: Connection): void {
    const endIdle = (): void => {
      if (responseOn(socket) === undefined && !connection.hasEnded) {
        end(socket, connection);
      }
    };
    if (responseOn(socket) === undefined && socket.bytesRead > connection.idleBytes) {
      const timer = setTimeout(endIdle, lingerMs);
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
        calls: 0,
        served: 0,
        busyMs: nowMs,
        servedThen: 0,
        body: { startMs: nowMs, bytes: 0 },
        answer: { startMs: nowMs, bytes: 0 },
        idleBytes: 0,
        isOld: false,
        hasEnded: false,
      };
      connections.set(socket, connection);
      socket.once("close", () => connections.delete(socket));
      // Node calls this after a response that ends the connection, whether the request is all read or not.
      socket.destroySoon = () => linger(socket);
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

function hasSeveralHosts({ rawHeaders }: http.IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    hosts += name?.length === 4 && name.toLowerCase() === "host" ? 1 : 0;
  }
  return hosts > 1;
}

function limitOf({ code }: NodeJS.ErrnoException, socket: Socket): keyof ListenerLimits | undefined {
  switch (code) {
    // Of fields too many, too.
    case "HPE_HEADER_OVERFLOW":
      return "headerBytes";
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return responseOn(socket) === undefined ? "headersTimeoutMs" : "requestTimeoutMs";
    default:
      return undefined;
  }
}
