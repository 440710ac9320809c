import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { type ConnectRouter, createConnectRouter, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { Health as HealthService } from "../../gen/grpc/health/v1/health_pb.ts";
import type { PermissionCheck } from "../auth/gate.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type Observer, silentObserver } from "../telemetry/observer.ts";
import { activateTrace } from "../telemetry/trace.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import { createReachableRegistry, createTranscoder } from "@flowgate/transcoding";
import { createOriginCheck } from "@flowgate/transcoding/server";
import { createDocs } from "./docs.ts";
import { type BrowserSafetyOptions, createPageGuard } from "./guards/browser-safety.ts";
import { createCorsGuard, type CorsOptions } from "./guards/cors.ts";
import { createLoadGuard, type SheddingOptions } from "./guards/load-shedding.ts";
import { addSecurityHeaders } from "./guards/security-headers.ts";
import { createHealth, createHealthEndpoints, type ReadinessSource } from "./health.ts";
import { type Gate, toFailure } from "./failures.ts";
import { createLimitLog } from "./limit-log.ts";
import { createListener } from "./listener/listener.ts";
import type { ListenerLimits, ListenerOptions } from "./listener/options.ts";
import { createClientCounter } from "./listener/client-counter.ts";
import { createTls, type TlsOptions } from "./listener/tls.ts";
import { createMetricsEndpoint } from "./metrics-endpoint.ts";
import { createPipeline, type Guard } from "./pipeline/pipeline.ts";
import { requestKey } from "./pipeline/request-context.ts";
import { createRouter } from "./pipeline/router.ts";
import { createReadWorkload, type IdentitySource } from "./read-workload.ts";
import { createRequestIds } from "./request-id.ts";
import { createRequestLog } from "./request-log.ts";
import { healthService, maxWatchesPerSource } from "./rpc/grpc-health.ts";
import { reflectionServices, registerReflection } from "./rpc/reflection.ts";
import { createOpenStreams } from "./rpc/open-streams.ts";
import { createRpcRoutes } from "./rpc/routes.ts";
import { createClientReader, createTrust } from "./trusted-proxies.ts";

export type ServerOptions = ReadinessSource & {
  host: string;
  /** 0 takes any free port. */
  port: number;
  log: Logger;
  /** Registers the RPCs; called once by each protocol stack. */
  routes: (router: ConnectRouter) => void;
  /** Methods whose request messages are decoded when they are read. Absent: none. */
  deferred?: readonly DescMethod[];
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
  /** Absent: nothing is measured. */
  observer?: Observer | undefined;
  /** Absent: nothing is traced. */
  tracing?: Pick<Tracing, "root" | "isOn"> | undefined;
  /** `/metrics` is served here, for callers that `checkPermission` admits. Absent: it is not. */
  metrics?: { readonly metrics: Metrics; readonly checkPermission: PermissionCheck } | undefined;
  /** What pages of others are kept from. Absent: from nothing, for there is nothing to gain without a token. */
  browserSafety?: BrowserSafetyOptions | undefined;
  /** Pages of other origins that may call. Absent: none, and no CORS header is ever sent. */
  cors?: CorsOptions | undefined;
  listener?: Partial<ListenerOptions>;
  /** Absent: without TLS. */
  tls?: TlsOptions | undefined;
  /** Addresses and subnets whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host count. */
  trustedProxies?: readonly string[];
  /** Workloads are told apart by this. Absent: they are not. */
  identity?: IdentitySource | undefined;
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
  await using stack = new AsyncDisposableStack();
  const leaving = new AbortController();
  const { server, health } = createServer(options, leaving.signal, stack);
  const drain = (): void => {
    health.drain();
    leaving.abort();
  };
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(options.port, options.host, listening.resolve);
  await listening.promise;
  server.off("error", listening.reject);
  stack.defer(() => new Promise<void>((resolve) => server.close(() => resolve())));
  stack.defer(drain);
  const all = stack.move();
  let closed: Promise<void> | undefined;
  const { address, family, port } = server.address() as AddressInfo;
  const scheme = options.tls === undefined ? "http" : "https";
  return {
    url: `${scheme}://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    port,
    drain,
    connections: () => promisify(server.getConnections.bind(server))(),
    [Symbol.asyncDispose]: () => (closed ??= all.disposeAsync()),
  };
}

/** What an operator needs most under load: to see what is going on, and to revoke a token. */
const exempt: ReadonlySet<DescMethod> = new Set([...HealthService.methods, AuthService.method.revokeToken]);

/** What a timer can wait; beyond it, Node lets it fire at once. */
const maxTimerMs = 2_147_483_647;

/** Neither its .proto files nor ours say it: no request of health or reflection is longer than a name. */
const maxNameBytes = 4 * 1024;

function createServer(
  { log, limits, trustedProxies = [], deferred = [], ...options }: ServerOptions,
  leaving: AbortSignal,
  stack: AsyncDisposableStack,
) {
  const isTrusted = createTrust(trustedProxies);
  const { observer = silentObserver, tracing } = options;
  const { bodyBytes, deadlineMs = maxTimerMs } = limits;
  const closing = new AbortController();
  const openStreams = createOpenStreams();

  const services = [
    ...servicesOf(options.routes),
    HealthService,
    ...(options.reflection === true ? reflectionServices : []),
  ];
  const methods = services.flatMap((service) => service.methods);
  const health = createHealth(
    options,
    services.map(({ typeName }) => typeName),
  );
  const routes = (router: ConnectRouter): void => {
    options.routes(router);
    const small = { readMaxBytes: Math.min(maxNameBytes, bodyBytes) };
    router.service(HealthService, healthService(health, createClientCounter(maxWatchesPerSource, isTrusted)), small);
    if (options.reflection === true) {
      registerReflection(router, services, small);
    }
  };

  const interceptors = [...(tracing?.isOn === true ? [activateTrace] : []), ...options.interceptors];
  const rpcs = createRpcRoutes({
    routes,
    requestGate: options.gate,
    interceptors,
    registry: createReachableRegistry(methods),
    readMaxBytes: bodyBytes,
    deferred,
    maxTimeoutMs: deadlineMs,
    untilClosing: openStreams.until,
    exempt,
    log,
  });
  const transcoder = createTranscoder({
    routes: options.routes,
    requestGate: options.gate,
    interceptors,
    streams: { shutdownSignal: closing.signal },
    mapError(error, context) {
      const failure = toFailure(error, log, context);
      context.values.get(requestKey)?.fail(failure.code);
      return failure;
    },
    maxBodyBytes: bodyBytes,
    deferred,
    maxTimeoutMs: deadlineMs,
  });

  const findRoute = createRouter({
    routes: new Map([
      ...rpcs,
      ...createHealthEndpoints(health),
      ...(options.docs === true ? createDocs() : []),
      ...(options.metrics === undefined
        ? []
        : [createMetricsEndpoint(options.metrics.metrics, options.metrics.checkPermission)]),
    ]),
    transcoder,
    exempt,
  });
  const pipeline = createPipeline({
    environment: {
      client: createClientReader(isTrusted),
      requestIdOf: createRequestIds(),
      readWorkload: options.identity && createReadWorkload(options.identity, isTrusted),
      observer,
      onEnd: createRequestLog(log),
      findRoute,
    },
    guards: createGuards({ ...options, limits, log, observer }, isTrusted, methods, stack),
    traceRoot: tracing?.root,
    log,
  });
  const logLimit = createLimitLog(log);
  const server = createListener(pipeline.handle, {
    ...limits,
    isProxy: isTrusted,
    onLimit(limit) {
      logLimit(limit);
      observer.limitReached(limit);
    },
    ...(options.tls && { decide: createTls(options.tls, log, (reason) => observer.tlsHandshakeFailed(reason)) }),
    onDegraded: (message) => log.warn(message),
    onMalformed: pipeline.malformed,
    leaving,
    onTold() {
      // Streams that only wait would hold up the end. Their clients open them anew elsewhere by now.
      health.close();
      openStreams.close();
      closing.abort();
    },
    ...options.listener,
  });
  return { server, health };
}

/** In the order in which a request meets them. */
function createGuards(
  { browserSafety, cors, observer, limits, log }: ServerOptions & { readonly observer: Observer },
  isProxy: ListenerOptions["isProxy"],
  methods: readonly DescMethod[],
  stack: AsyncDisposableStack,
): Guard[] {
  const guards: Guard[] = [addSecurityHeaders];
  if (browserSafety !== undefined) {
    guards.push(createPageGuard({ ...browserSafety, isListed: createOriginCheck(cors?.origins ?? []) }));
  }
  if (cors !== undefined) {
    guards.push(createCorsGuard(cors, methods));
  }
  const { inFlight = 0, inFlightPerSource = 0, eventLoopDelayMs = 0 } = limits;
  if (inFlight > 0 || inFlightPerSource > 0 || eventLoopDelayMs > 0) {
    const load = stack.use(createLoadGuard({ inFlight, inFlightPerSource, eventLoopDelayMs, isProxy, log, observer }));
    guards.push(load.guard);
  }
  return guards;
}

function servicesOf(routes: ServerOptions["routes"]): DescService[] {
  const router = createConnectRouter();
  routes(router);
  return [...new Set(router.handlers.map(({ service }) => service))];
}
