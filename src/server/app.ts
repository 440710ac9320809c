import { promisify } from "node:util";
import type { DescService } from "@bufbuild/protobuf";
import {
  type ConnectRouter,
  type ContextValues,
  createConnectRouter,
  createContextValues,
  type Interceptor,
} from "@connectrpc/connect";
import { fastify, type FastifyInstance, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Guard } from "../auth/gate.ts";
import { peerKey } from "../auth/principal.ts";
import { type BrowserSafetyOptions, guardAgainstPages } from "./guards/browser-safety.ts";
import { registerRpcs } from "./rpc/connect.ts";
import { allowOrigins, type CorsOptions, createOriginList } from "./guards/cors.ts";
import { registerDocs } from "./docs.ts";
import { Health as HealthService } from "../../gen/grpc/health/v1/health_pb.ts";
import { exchangeKey, exchangeOf } from "./exchange.ts";
import { endStreams } from "./rpc/ended-streams.ts";
import { createFaultHandler, refuseUnknown } from "./faults.ts";
import { healthService, maxWatchesPerSource } from "./rpc/grpc-health.ts";
import { createHealth, type Health, type ReadinessSource, registerHealth } from "./health.ts";
import { failureInterceptor, type Gate, gateWithDeadline, gateWithExchange, gateWithFailures } from "./interceptors.ts";
import { createLimitLog } from "./limit-log.ts";
import { createListener } from "./listener/listener.ts";
import type { RequestHandler } from "./listener/request-handler.ts";
import { createSources } from "./listener/sources.ts";
import type { ListenerLimits, ListenerOptions } from "./listener/options.ts";
import { shedLoad, type SheddingOptions, type SheddingReason } from "./guards/load-shedding.ts";
import { registerMetrics } from "./metrics-endpoint.ts";
import { createObserver } from "./observer.ts";
import { FastifyLog, logRequests } from "./request-log.ts";
import { createRpcPaths } from "./guards/refuse-request.ts";
import { reflectionServices, registerReflection } from "./rpc/reflection.ts";
import { createReadWorkload, type IdentitySource, type ReadWorkload } from "./read-workload.ts";
import { hardenAnswers } from "./guards/security-headers.ts";
import { createTls, type TlsFailure, type TlsOptions } from "./listener/tls.ts";
import { clientAddress, createTrust } from "./trusted-proxies.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { RequestMetrics } from "../telemetry/requests.ts";
import { activateTrace } from "../telemetry/trace.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import { fastifyTranscodingPlugin } from "../transcoding/index.ts";
import { answerRequestIds, createRequestIds } from "./request-id.ts";

export type ServerOptions = ReadinessSource & {
  host: string;
  /** 0 takes any free port. */
  port: number;
  log: Logger;
  /** Registers the RPCs; called once by each protocol stack. */
  routes: (router: ConnectRouter) => void;
  /** Lets a call in or throws; runs before its body is read. */
  gate: Gate;
  /** Outermost first. */
  interceptors: Interceptor[];
  /** The API is described at /openapi.json and /docs. Absent: it is not. */
  docs?: boolean;
  /** The RPC services are described by gRPC server reflection. Absent: they are not. */
  reflection?: boolean;
  limits: {
    /** Of the largest request message. */
    bodyBytes: number;
    /** Of the longest deadline that a call can set. Absent: what a timer can wait. */
    deadlineMs?: number;
  } & Partial<SheddingOptions & ListenerLimits>;
  /** Hear of what comes to the port. Absent: no one does. */
  observation?: { readonly requests: RequestMetrics | undefined; readonly tracing: Tracing };
  /** `/metrics` is served here, to whom the guard lets in. Absent: it is not. */
  metrics?: { readonly metrics: Metrics; readonly guard: Guard };
  /** Hears of each call that was refused to shed load. */
  onShed?: (reason: SheddingReason) => void;
  /** Hears of each connection and each call that was ended because of a limit. */
  onLimit?: (limit: keyof ListenerLimits) => void;
  /** Hears of each TLS handshake that failed. */
  onTlsFailure?: (reason: TlsFailure) => void;
  /** What pages of others are kept from. Absent: from nothing, for there is nothing to gain without a token. */
  browserSafety?: BrowserSafetyOptions;
  /** Pages of other origins that may call. Absent: none, and no CORS header is ever sent. */
  cors?: CorsOptions;
  listener?: Partial<ListenerOptions>;
  /** Absent: without TLS. */
  tls?: TlsOptions;
  /** Addresses and subnets whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host count. */
  trustedProxies?: readonly string[];
  /** Workloads are told apart by this. Absent: they are not. */
  identity?: IdentitySource;
};

/** Disposing drains it, ends streams with UNAVAILABLE and finishes the calls in flight, within the listener's grace. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /**
   * From now on `/readyz` and gRPC's health say that it is not ready, so that no new calls are sent to it, and
   * HTTP/1 answers end their connections; calls that come are still served. There is no way back.
   */
  drain(): void;
  /** How many connections are open. */
  connections(): Promise<number>;
}

/** Serves the RPCs over every protocol, and the health of the service, on one port. */
export async function openServer(options: ServerOptions): Promise<Server> {
  const leaving = new AbortController();
  const { app, health } = createApp(options, leaving.signal);
  const drain = (): void => {
    health.drain();
    leaving.abort();
  };
  let closed: PromiseLike<void> | undefined;
  try {
    const address = await app.listen({ host: options.host, port: options.port });
    const url = options.tls === undefined ? address : address.replace(/^http:/, "https:");
    return {
      url,
      port: Number(new URL(url).port),
      drain,
      connections: () => promisify(app.server.getConnections.bind(app.server))(),
      async [Symbol.asyncDispose]() {
        drain();
        await (closed ??= app.close());
      },
    };
  } catch (error) {
    await app.close();
    throw error;
  }
}

function createApp(
  { log, limits, trustedProxies = [], ...options }: ServerOptions,
  leaving: AbortSignal,
): { app: FastifyInstance; health: Health } {
  const faultHandler = createFaultHandler(log);
  const isTrusted = createTrust(trustedProxies);
  const { requests, tracing } = options.observation ?? {};
  const logLimit = createLimitLog(log);
  const closing = new AbortController();
  const app = fastify({
    serverFactory: (handler) =>
      createListener(withOriginForm(handler), {
        ...limits,
        isProxy: isTrusted,
        onLimit(limit) {
          logLimit(limit);
          options.onLimit?.(limit);
        },
        ...(options.tls && { decide: createTls(options.tls, log, options.onTlsFailure) }),
        observer: createObserver(requests, tracing?.root),
        leaving,
        onTold() {
          // Streams that only wait would hold up the end. Whoever opens one anew does so elsewhere by now.
          health.close();
          closing.abort();
        },
        ...options.listener,
      }),
    ...(trustedProxies.length > 0 && { trustProxy: isTrusted }),
    genReqId: createRequestIds(),
    logController: new FastifyLog(log),
    frameworkErrors: faultHandler,
    // The listener answers these, and it decides what a closing server still serves.
    clientErrorHandler: () => {},
    return503OnClosing: false,
  });

  // Bodies are read by whom they are for, after the gate.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(/^/, (_request, _payload, done) => done(null));

  app.setErrorHandler(faultHandler);
  refuseUnknown(app);
  answerRequestIds(app);
  logRequests(app, log);
  const served = servicesOf(options.routes);
  const described = [...served, HealthService, ...(options.reflection === true ? reflectionServices : [])];
  hardenAnswers(app);
  guard(app, { ...options, isProxy: isTrusted }, limits, log, described);
  const health = createHealth(
    options,
    described.map(({ typeName }) => typeName),
  );
  registerHealth(app, health);
  if (options.docs === true) {
    registerDocs(app);
  }

  const calls = {
    routes: options.routes,
    requestGate: gateWithExchange(gateWithFailures(gateWithDeadline(options.gate), log)),
    interceptors: [
      failureInterceptor(log),
      endStreams(closing.signal),
      ...(tracing?.isOn === true ? [activateTrace] : []),
      ...options.interceptors,
    ],
    contextValues: createValues(options.identity && createReadWorkload(options.identity, isTrusted)),
  };
  if (options.metrics !== undefined) {
    registerMetrics(app, { ...options.metrics, contextValues: calls.contextValues });
  }
  // Their .proto files, which are not ours, can't say it: no request is longer than the name that it asks for.
  const small = { readMaxBytes: Math.min(4 * 1024, limits.bodyBytes) };
  const withOwn = (router: ConnectRouter): void => {
    options.routes(router);
    router.service(HealthService, healthService(health, createSources(maxWatchesPerSource, isTrusted)), small);
    if (options.reflection === true) {
      registerReflection(router, described, small);
    }
  };
  const { bodyBytes, deadlineMs } = limits;
  const deadline = deadlineMs === undefined ? {} : { maxTimeoutMs: deadlineMs };
  registerRpcs(app, { ...calls, ...deadline, routes: withOwn, readMaxBytes: bodyBytes }, log);
  void app.register(fastifyTranscodingPlugin, { ...calls, ...deadline, maxBodyBytes: bodyBytes });
  return { app, health };
}

/** What is asked of each request before anything else looks at it. */
function guard(
  app: FastifyInstance,
  {
    browserSafety,
    cors,
    onShed,
    isProxy,
  }: Pick<ServerOptions, "browserSafety" | "cors" | "onShed"> & Pick<ListenerOptions, "isProxy">,
  { inFlight = 0, inFlightPerSource = 0, eventLoopDelayMs = 0 }: ServerOptions["limits"],
  log: Logger,
  services: readonly DescService[],
): void {
  const methods = services.flatMap((service) => service.methods);
  const rpcs = createRpcPaths(methods);
  if (browserSafety !== undefined) {
    guardAgainstPages(app, { ...browserSafety, isListed: createOriginList(cors?.origins), rpcs });
  }
  if (cors !== undefined) {
    allowOrigins(app, cors, methods);
  }
  shedLoad(app, { inFlight, inFlightPerSource, eventLoopDelayMs, isProxy, rpcs, log, onShed });
}

/** A target in absolute form (RFC 9112, section 3.2.2) is taken too. Fastify's `rewriteUrl` would cost each request something. */
function withOriginForm(handler: RequestHandler): RequestHandler {
  return (request, response) => {
    const { url = "" } = request;
    if (!url.startsWith("/")) {
      Object.assign(request, { originalUrl: url, url: url.replace(/^https?:\/\/[^/?#]*/i, "") || "/" });
    }
    handler(request, response);
  };
}

function servicesOf(routes: ServerOptions["routes"]): DescService[] {
  const router = createConnectRouter();
  routes(router);
  return [...new Set(router.handlers.map(({ service }) => service))];
}

/**
 * Tells each call what it is part of, and who its peer is: before its body is read, for while it is, the client may go
 * away, and its address with it.
 */
function createValues(readWorkload: ReadWorkload | undefined): (request: FastifyRequest) => ContextValues {
  return (request) =>
    createContextValues()
      .set(exchangeKey, exchangeOf(request.raw))
      .set(peerKey, {
        address: clientAddress(request),
        requestId: request.id,
        ...(readWorkload && { workload: () => readWorkload(request) }),
      });
}
