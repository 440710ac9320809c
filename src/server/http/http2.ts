import type http2 from "node:http2";
import type { Socket } from "node:net";
import { type AcceptedConnection, gracefulCloseMs, type HttpProtocol } from "./connection.ts";
import { type ExchangeHandler, expectationError, repeatedFieldError } from "./exchange.ts";
import { createHttp2Connection, type Http2Connection, retireConnection } from "./http2-connection.ts";
import { Http2Exchange } from "./http2-exchange.ts";
import { type CheckHttp2Connection, createHttp2Limits } from "./http2-limits.ts";
import type { ListenerOptions } from "./listener-options.ts";
import { errorResponse } from "./error-response.ts";

/** HTTP/2, on connections whose protocol has already been detected. */
export class Http2 implements HttpProtocol {
  readonly #handler: ExchangeHandler;
  readonly #options: ListenerOptions;
  readonly #connections = new Map<Socket, Http2Connection>();
  readonly #check: CheckHttp2Connection;
  #isClosing = false;
  #server: http2.Http2Server | undefined;

  constructor(handler: ExchangeHandler, options: ListenerOptions) {
    this.#handler = handler;
    this.#options = options;
    this.#check = createHttp2Limits(options);
  }

  serve(socket: Socket, origin: AcceptedConnection): void {
    const server = (this.#server ??= createNodeServer(this.#options));
    const onSession = (session: http2.ServerHttp2Session): void => this.#open(session, socket, origin);
    server.once("session", onSession);
    server.emit("connection", socket);
    server.off("session", onSession);
  }

  retire(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection !== undefined) {
      void retireConnection(connection);
    }
  }

  enforceLimits(nowMs: number): void {
    for (const [socket, connection] of this.#connections) {
      this.#check(socket, connection, nowMs);
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await Promise.all([...this.#connections.values()].map(retireConnection));
  }

  #open(session: http2.ServerHttp2Session, socket: Socket, origin: AcceptedConnection): void {
    const handler = this.#handler;
    const connection = createHttp2Connection(session, socket, origin);
    this.#connections.set(socket, connection);
    socket.once("close", () => this.#connections.delete(socket));
    session.once("close", () => {
      // A client may keep the connection open after GOAWAY.
      const timer = setTimeout(() => socket.destroy(), gracefulCloseMs);
      socket.once("close", () => clearTimeout(timer));
    });
    session.once("remoteSettings", () => {
      connection.hasClientSettings = true;
    });
    session.on("stream", (stream, headers, _flags, rawHeaders) => {
      const exchange = new Http2Exchange(stream, headers, rawHeaders, connection);
      connection.lastStreamId = stream.id ?? connection.lastStreamId;
      connection.exchanges.add(exchange);
      handler(
        exchange,
        exchange.method === "CONNECT"
          ? connectUnsupported()
          : (repeatedFieldError(rawHeaders) ?? expectationError(exchange.headers)),
      );
    });
    session.setLocalWindowSize(1024 * 1024);
    if (this.#isClosing) {
      void retireConnection(connection);
    }
  }
}

/** node:http2 is loaded for it, which takes 25 ms of CPU time. */
function createNodeServer(options: ListenerOptions): http2.Http2Server {
  return process.getBuiltinModule("node:http2").createServer({
    settings: {
      maxConcurrentStreams: options.callsPerConnection,
      maxHeaderListSize: options.headerBytes,
      initialWindowSize: 256 * 1024,
    },
    // Also enforced before the client has seen the setting.
    maxHeaderListPairs: options.headerFields,
    // In MB. Node's default of 10 ends a session that carries some thousands of streams.
    maxSessionMemory: 100,
    // Node's defaults limit resets, invalid frames, rejected streams and settings (docs/decisions.md).
  });
}

const connectUnsupported = () => errorResponse(405, "the CONNECT method is not supported");
