import http from "node:http";
import http2 from "node:http2";
import type { Socket } from "node:net";
import { refuseConnection } from "./client-error.ts";
import { refuseExpectation, serveWhenContinued } from "./expectation.ts";
import type { RequestHandler } from "./request-handler.ts";
import { linger, lingerMs } from "./linger.ts";
import { responseOn } from "./response-on.ts";
import { sniff } from "./sniff.ts";

export type ListenerOptions = {
  /** How long a connection may take to show its protocol: its first bytes, or the whole HTTP/2 preface. */
  firstByteTimeoutMs: number;
  /** How long the header of an HTTP/1 request may take. */
  headersTimeoutMs: number;
  /** How long a whole HTTP/1 request may take, its body included. */
  requestTimeoutMs: number;
  /** How long a connection may idle. Longer than load balancers wait (60 s), so that they close first. */
  idleTimeoutMs: number;
  /** How long close() waits for calls in flight before it ends their connections. */
  closeGraceMs: number;
};

const defaults: ListenerOptions = {
  firstByteTimeoutMs: 10_000,
  headersTimeoutMs: 20_000,
  requestTimeoutMs: 300_000,
  idleTimeoutMs: 72_000,
  closeGraceMs: 10_000,
};

const headerBytes = 16 * 1024;

/**
 * A server for HTTP/1.1 and HTTP/2 without TLS on one port. It is an HTTP/1 server that owns the port,
 * looks at what a connection begins with, and passes HTTP/2 on to a sibling that shares its handler.
 *
 * close() takes no new work and lets calls in flight finish; its callback always comes.
 */
export function createListener(handler: RequestHandler, options: Partial<ListenerOptions> = {}): http.Server {
  const { firstByteTimeoutMs, closeGraceMs, ...timeouts } = { ...defaults, ...options };
  const sockets = new Set<Socket>();
  const undecided = new Set<Socket>();
  const http1Sockets = new Set<Socket>();
  const sessions = new Set<http2.Http2Session>();
  let closing = false;

  class Response extends http.ServerResponse {
    override writeHead(status: number, ...rest: unknown[]): this {
      if (closing) {
        this.shouldKeepAlive = false;
      }
      return super.writeHead(status, ...(rest as [http.OutgoingHttpHeaders?]));
    }

    override end(...rest: unknown[]): this {
      super.end(...(rest as []));
      // Node itself reads away the rest of a body only where no one has begun to read it.
      if (!this.req.complete || this.req.readableLength > 0) {
        this.req.resume();
      }
      return this;
    }
  }

  const server = createHttp1(handler, timeouts, Response);
  const sibling = createHttp2(handler, timeouts, sessions);

  const [serveHttp1] = server.listeners("connection") as [(this: http.Server, socket: Socket) => void];
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    undecided.add(socket);
    socket.once("close", () => {
      sockets.delete(socket);
      undecided.delete(socket);
      http1Sockets.delete(socket);
    });
    // A connection may break at any time; whoever uses it learns that from its end.
    socket.on("error", () => {});
    sniff(socket, firstByteTimeoutMs, (protocol) => {
      undecided.delete(socket);
      if (protocol === "http1") {
        http1Sockets.add(socket);
        // Node calls this after a response that ends the connection, whether the request is all read or not.
        socket.destroySoon = () => linger(socket);
        serveHttp1.call(server, socket);
      } else {
        sibling.emit("connection", socket);
      }
    });
  });

  const close = server.close.bind(server);
  server.close = (callback) => {
    closing = true;
    // Responses whose head has left already promised to keep the connection: it ends as it falls idle.
    server.keepAliveTimeout = 1;
    server.keepAliveTimeoutBuffer = 0;
    close(callback);
    for (const socket of undecided) {
      socket.destroy();
    }
    // A request that is not all there, or was answered without having been read, keeps no one waiting.
    for (const socket of http1Sockets) {
      if (responseOn(socket) === undefined) {
        linger(socket);
      }
    }
    for (const session of sessions) {
      session.close();
    }
    const grace = setTimeout(() => {
      for (const socket of sockets) {
        socket.destroy();
      }
    }, closeGraceMs);
    server.once("close", () => clearTimeout(grace));
    return server;
  };
  return server;
}

type Timeouts = Pick<ListenerOptions, "headersTimeoutMs" | "requestTimeoutMs" | "idleTimeoutMs">;

function createHttp1(
  handler: RequestHandler,
  timeouts: Timeouts,
  Response: typeof http.ServerResponse<http.IncomingMessage>,
): http.Server {
  const server = http.createServer(
    {
      ServerResponse: Response,
      noDelay: true,
      maxHeaderSize: headerBytes,
      headersTimeout: timeouts.headersTimeoutMs,
      requestTimeout: timeouts.requestTimeoutMs,
      keepAliveTimeout: timeouts.idleTimeoutMs,
      // At Node's default of 30 s a timeout of 20 s would come after up to 50.
      connectionsCheckingInterval: Math.min(1_000, timeouts.headersTimeoutMs),
      // RFC 9110, section 7.8: a server may ignore Upgrade and answer as HTTP/1.1.
      shouldUpgradeCallback: () => false,
    },
    handler,
  );
  server.on("checkContinue", serveWhenContinued(handler));
  server.on("checkExpectation", refuseExpectation);
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => refuseConnection(error, socket as Socket));
  return server;
}

class Http2Response extends http2.Http2ServerResponse {
  override end(...rest: unknown[]): this {
    const { stream } = this;
    if (stream !== undefined && !stream.endAfterHeaders && !stream.readableEnded && !stream.destroyed) {
      // Node resets a stream whose body no one began to read (RFC 9113, section 8.1), and only that: clients
      // that stop sending once they are answered would leave the others half open.
      const timer = setTimeout(() => {
        stream.close();
        // A stream is not closed while bytes of it wait to be read.
        this.req.resume();
      }, lingerMs);
      stream.once("close", () => clearTimeout(timer));
    }
    return super.end(...(rest as []));
  }
}

function createHttp2(
  handler: RequestHandler,
  timeouts: Timeouts,
  sessions: Set<http2.Http2Session>,
): http2.Http2Server {
  const server = http2.createServer({
    settings: { maxConcurrentStreams: 1_000, maxHeaderListSize: headerBytes, initialWindowSize: 256 * 1024 },
    // In MB. Node's default of 10 ends a session that carries some thousands of streams.
    maxSessionMemory: 100,
    Http2ServerResponse: Http2Response,
  });
  const compatible = handler as unknown as (
    request: http2.Http2ServerRequest,
    response: http2.Http2ServerResponse,
  ) => void;
  server.on("request", compatible);
  server.on("checkContinue", serveWhenContinued(handler) as unknown as typeof compatible);
  server.on("checkExpectation", refuseExpectation as unknown as typeof compatible);
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.setLocalWindowSize(1024 * 1024);
    session.setTimeout(timeouts.idleTimeoutMs, () => session.close());
  });
  return server;
}
