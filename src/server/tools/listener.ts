import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { addressOf, listen } from "@flowgate/base/addresses";
import { codeOfStatus } from "@flowgate/gateway/server";
import { type FastifyInstance, type FastifyReply, type FastifyServerFactory, fastify } from "fastify";
import { explainJsonLimit } from "../../base/json-limit.ts";
import type { Observer } from "../../telemetry/observer.ts";
import { createClientCounter } from "../http/client-counter.ts";
import type { ListenerLimits } from "../http/listener-options.ts";
import type { TlsOptions } from "../http/tls.ts";
import { createTrust } from "../pipeline/client.ts";
import { type OwnHosts, protectOrigin } from "./access.ts";

export type ToolsListenerOptions = {
  readonly host: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly ownHosts: OwnHosts;
  /** Absent: plaintext. */
  readonly tls: TlsOptions | undefined;
  readonly trustedProxies: readonly string[];
  readonly limits: ConnectionLimits;
  readonly observer: Observer;
  readonly requestIdOf: (headers: IncomingMessage["headers"]) => string;
  /** The longest time that a response may take to begin. */
  readonly responseTimeoutMs: number;
  /** How long closing waits for requests in flight. */
  readonly closeGraceMs: number;
  /** Adds routes, and handlers of the server. Disposing ends the responses and connections that would stay open. */
  readonly serve: (app: FastifyInstance) => AsyncDisposable;
};

type ConnectionLimits = Pick<
  ListenerLimits,
  | "connections"
  | "connectionsPerSource"
  | "headerBytes"
  | "headerFields"
  | "headersTimeoutMs"
  | "requestTimeoutMs"
  | "idleTimeoutMs"
>;

/** The listener of Node-RED's tools. Disposing stops it, and waits up to `closeGraceMs` for requests in flight. */
export interface ToolsListener extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
}

/** Bodies of routes that do not say otherwise. */
const bodyBytes = 64 * 1024;

export async function openToolsListener(options: ToolsListenerOptions): Promise<ToolsListener> {
  const { host, port, tls, trustedProxies, requestIdOf } = options;
  await using stack = new AsyncDisposableStack();
  let server: Server | undefined;
  const serverFactory: FastifyServerFactory = (handler) => (server ??= createHttpServer(handler, options));
  const app = fastify({
    serverFactory,
    bodyLimit: bodyBytes,
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
    // Such as an invalid URL, before there is a route.
    frameworkErrors: (_error, _request, reply) => sendMalformed(reply),
    requestIdHeader: false,
    genReqId: (raw) => requestIdOf(raw.headers),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1_000 },
  });
  stack.defer(() => app.close());
  measureRequests(app, options.observer);
  protectOrigin(app, options.ownHosts);
  limitJsonBodies(app);
  const served = options.serve(app);
  await app.ready();
  if (server === undefined) {
    throw new TypeError("Fastify has created no server");
  }
  const opened = server;
  const endConnections = trackResponses(opened);
  const ipv6 = await listen(opened, host, port);
  ipv6?.on("connection", (socket) => opened.emit("connection", socket));
  stack.defer(async () => {
    endConnections();
    await close(opened, ipv6, options.closeGraceMs);
  });
  stack.use(served);
  const { address, family, port: bound } = addressOf(opened);
  const resources = stack.move();
  return {
    url: `${tls === undefined ? "http" : "https"}://${family === "IPv6" ? `[${address}]` : address}:${bound}`,
    port: bound,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

function sendMalformed(reply: FastifyReply): void {
  const message = "the request is malformed: send valid JSON, or what the route expects";
  reply.status(400).send({ code: "invalid_request", message });
}

/** Reports each request to the observer when it ends. Must be called before hooks are added that can refuse requests. */
function measureRequests(app: FastifyInstance, observer: Pick<Observer, "requestStarted" | "requestEnded">): void {
  app.addHook("onRequest", (request, { raw }, done) => {
    const startMs = performance.now();
    observer.requestStarted();
    raw.once("close", () => {
      // Routes name the RPC that they call.
      const { rpc } = request.routeOptions.config as { readonly rpc?: DescMethod };
      const failure = raw.statusCode < 400 ? undefined : codeOfStatus(raw.statusCode);
      const outcome = raw.writableFinished ? failure : Code.Canceled;
      observer.requestEnded(rpc, "node-red", outcome, (performance.now() - startMs) / 1000);
    });
    done();
  });
}

/** Makes routes refuse JSON that takes the event loop long to parse, to merge or to write again. */
function limitJsonBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeContentTypeParser("application/json");
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body: Buffer, parsed) => {
    const error = explainJsonLimit(body, "the body");
    if (error === undefined) {
      void parse(request, body.toString(), parsed);
    } else {
      parsed(error);
    }
  });
}

function createHttpServer(handler: RequestListener, options: ToolsListenerOptions): Server {
  const { limits, responseTimeoutMs, tls } = options;
  const { headersTimeoutMs, requestTimeoutMs, idleTimeoutMs, headerBytes } = limits;
  const http = {
    headersTimeout: headersTimeoutMs,
    requestTimeout: Math.max(requestTimeoutMs, headersTimeoutMs),
    keepAliveTimeout: idleTimeoutMs,
    connectionsCheckingInterval: 1_000,
    maxHeaderSize: headerBytes,
    noDelay: true,
    // Clients that offer HTTP/2 (`h2c`) get their response in HTTP/1.1.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) => headers.upgrade?.toLowerCase() === "websocket",
  };
  const server = tls === undefined ? createServer(http, handler) : createTlsServer(tls, http, handler);
  server.maxHeadersCount = limits.headerFields;
  // Of a connection on which nothing is sent or received, such as one whose client does not read its response.
  server.timeout = responseTimeoutMs;
  limitConnections(server, options);
  return server;
}

function createTlsServer(
  { certificates, clientCertificate }: TlsOptions,
  http: object,
  handler: RequestListener,
): Server {
  const server = createSecureServer(
    {
      ...http,
      ...certificates.current(),
      requestCert: clientCertificate === "require",
      rejectUnauthorized: clientCertificate === "require",
    },
    handler,
  );
  certificates.onChange((next) => server.setSecureContext(next));
  return server;
}

/** Resets connections beyond the limits, in total and of one client. */
function limitConnections(
  server: Server,
  { limits: { connections, connectionsPerSource }, trustedProxies }: ToolsListenerOptions,
): void {
  const clients = createClientCounter(connectionsPerSource, createTrust(trustedProxies));
  let total = 0;
  server.on("connection", (socket: Socket) => {
    const release = total < connections ? clients.admit(socket.remoteAddress) : undefined;
    if (release === undefined) {
      socket.resetAndDestroy();
      return;
    }
    total += 1;
    socket.once("close", () => {
      total -= 1;
      release();
    });
  });
}

/**
 * Returns a function that ends connections with their responses from then on: one that a client keeps alive would hold up the closing of the
 * server until its timeout.
 */
function trackResponses(server: Server): () => void {
  const open = new Set<ServerResponse>();
  let isClosing = false;
  server.on("request", (_request: IncomingMessage, response: ServerResponse) => {
    open.add(response);
    response.shouldKeepAlive &&= !isClosing;
    response.once("close", () => {
      open.delete(response);
      if (isClosing) {
        // Its header may have been sent before.
        server.closeIdleConnections();
      }
    });
  });
  return () => {
    isClosing = true;
    open.forEach((response) => {
      response.shouldKeepAlive = false;
    });
  };
}

async function close(server: Server, ipv6: { close(): unknown } | undefined, graceMs: number): Promise<void> {
  ipv6?.close();
  const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
  server.closeIdleConnections();
  await Promise.race([closed, delay(graceMs, undefined, { ref: false })]);
  server.closeAllConnections();
}
