import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { type ConnectRouter, createConnectRouter, type Interceptor } from "@connectrpc/connect";
import type { Logger } from "pino";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { TokensService } from "../../gen/flowgate/v1/tokens_pb.ts";
import { Health as HealthService } from "../../gen/grpc/health/v1/health_pb.ts";
import type { PermissionCheck } from "../auth/gate.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type Observer, silentObserver } from "../telemetry/observer.ts";
import { activateTrace } from "../telemetry/trace.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import { createReachableRegistry, createTranscoder } from "@flowgate/transcoding";
import { createOriginCheck, isDeferred } from "@flowgate/transcoding/server";
import { createDocs } from "./docs.ts";
import { type BrowserSafetyOptions, createPageGuard } from "./guards/browser-safety.ts";
import { createCorsGuard, type CorsOptions } from "./guards/cors.ts";
import { createLoadGuard, createOverloadReporter, type SheddingOptions } from "./guards/load-shedding.ts";
import { addSecurityHeaders } from "./guards/security-headers.ts";
import { createHealth, createHealthEndpoints, type ReadinessOptions } from "./health.ts";
import { type Gate, toFailure } from "./errors/failures.ts";
import { createLimitLog } from "./limit-log.ts";
import { listenUnix, UnixSocketError } from "./listener/listen-unix.ts";
import { createListener, type Listener } from "./listener/listener.ts";
import { type ListenerLimits, listenerDefaults, type ListenerOptions } from "./listener/options.ts";
import { createClientCounter } from "./listener/client-counter.ts";
import { createTls, type TlsOptions } from "./listener/tls.ts";
import { assertDecodable } from "./memory/decoding-limit.ts";
import { createMemoryBudget } from "./memory/memory-budget.ts";
import { createMetricsEndpoint } from "./metrics-endpoint.ts";
import { createPipeline, type Guard } from "./pipeline/pipeline.ts";
import { type RequestEnvironment, requestKey } from "./pipeline/request-context.ts";
import { createRouter } from "./pipeline/router.ts";
import { createReadWorkload, type IdentitySource } from "./read-workload.ts";
import { createRequestIds } from "./request-id.ts";
import { createRequestLog } from "./request-log.ts";
import { healthService, maxWatchesPerClient } from "./rpc/grpc-health.ts";
import { reflectionServices, registerReflection } from "./rpc/reflection.ts";
import { createOpenStreams } from "./rpc/open-streams.ts";
import { createRpcRoutes } from "./rpc/routes.ts";
import { createRuntimeAlarm } from "./runtime-alarm.ts";
import { createRuntimeSockets, type RuntimeProcess } from "./runtime-sockets.ts";
import { createClientReader, createTrust } from "./trusted-proxies.ts";

export type ServerOptions = ReadinessOptions & {
  host: string;
  /** 0 takes any free port. */
  port: number;
  /** The path of a Unix socket that serves the same, with limits of its own. Absent: none. */
  socket?: UnixSocketOptions | undefined;
  log: Logger;
  /** Registers the RPCs; called once by each protocol stack. */
  routes: (router: ConnectRouter) => void;
  /** Methods whose request messages are decoded on first access. Defaults to none. */
  deferred?: readonly DescMethod[];
  /** Throws to reject a call; runs before its body is read. */
  gate: Gate;
  /**
   * The methods for which the gate rejects callers without an identity by `Peer.overloaded`, so that others can be served while the
   * service is overloaded. Defaults to none.
   */
  identified?: ReadonlySet<DescMethod>;
  /** The process of the flow runtime. Absent: there is none, or its connections are counted like all others. */
  runtimeProcess?: RuntimeProcess | undefined;
  /** Called, at most every 10 s, when flows exceed their share of connections and calls. */
  onRuntimeLockOut?: ((reason: string) => void) | undefined;
  /** Outermost first. */
  interceptors: Interceptor[];
  /** Serves the API description at /openapi.json and /docs. Defaults to false. */
  docs?: boolean;
  /** Serves gRPC server reflection. Defaults to false. */
  reflection?: boolean;
  limits: {
    /** Size of the largest request message. */
    bodyBytes: number;
    /** Longest deadline that a call can set. Defaults to the longest delay of a timer. */
    deadlineMs?: number;
    /** Memory that large request bodies may take, in MiB. Defaults to no limit. */
    memoryMb?: number;
    /** How long a body waits for that memory. Defaults to 10 s. */
    memoryWaitMs?: number;
  } & Partial<SheddingOptions & ListenerLimits>;
  /** Receives measurements. Defaults to none. */
  observer?: Observer | undefined;
  /** Absent: requests are not traced. */
  tracing?: Pick<Tracing, "root" | "isOn"> | undefined;
  /** Serves `/metrics` to callers that `checkPermission` allows. Absent: not on this port. */
  metrics?: { readonly metrics: Metrics; readonly checkPermission: PermissionCheck } | undefined;
  /** Protection against requests from foreign web pages. Absent: none, as every call needs a token. */
  browserSafety?: BrowserSafetyOptions | undefined;
  /** Web pages of other origins that may call. Absent: none, and no CORS header is sent. */
  cors?: CorsOptions | undefined;
  listener?: Partial<ListenerOptions>;
  /** Absent: plaintext. */
  tls?: TlsOptions | undefined;
  /** Addresses and subnets whose X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host are used. */
  trustedProxies?: readonly string[];
  /** How workloads are identified. Absent: they are not. */
  identity?: IdentitySource | undefined;
};

type UnixSocketOptions = {
  readonly path: string;
  /** Otherwise the server starts without it if it can't be created, and logs why. */
  readonly isRequired: boolean;
};

/** Disposing drains the server, ends streams with UNAVAILABLE and waits up to `closeGraceMs` for calls in flight. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** The path of the Unix socket, if there is one. */
  readonly socketPath: string | undefined;
  /**
   * Makes `/readyz` and gRPC health report "not ready", so that load balancers send no new calls, and makes HTTP/1
   * responses close their connections. Calls that still arrive are served. Cannot be undone.
   */
  drain(): void;
  /** Number of open connections. */
  connections(): number;
}

/** Serves the RPCs over every protocol, and the health of the service, on one port and a Unix socket. */
export async function openServer(options: ServerOptions): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const draining = new AbortController();
  const { tcp, unix, health, endStreams } = createServer(options, draining.signal, stack);
  const drain = (): void => {
    health.drain();
    draining.abort();
  };
  // First, so that a port is not served if the socket can't be.
  const socket = await openSocket(unix.listener, options);
  stack.use(socket);
  const served = socket === undefined ? [tcp] : [tcp, unix];
  const { address, family, port } = await tcp.listener.listenOn(options.host, options.port);
  stack.defer(async () => {
    // Open streams would delay the end. By then their clients have been notified, and can reopen them elsewhere.
    void Promise.all(served.map(({ notified }) => notified)).then(endStreams);
    await Promise.all(served.map(({ listener }) => new Promise((resolve) => void listener.close(resolve))));
  });
  stack.defer(drain);
  const all = stack.move();
  let closed: Promise<void> | undefined;
  const scheme = options.tls === undefined ? "http" : "https";
  return {
    url: `${scheme}://${family === "IPv6" ? `[${address}]` : address}:${port}`,
    port,
    socketPath: socket && options.socket?.path,
    drain,
    connections: () => tcp.listener.connectionCount() + unix.listener.connectionCount(),
    [Symbol.asyncDispose]: () => (closed ??= all.disposeAsync()),
  };
}

/** undefined: there is no Unix socket. */
async function openSocket(listener: Listener, { socket, log }: ServerOptions): Promise<Disposable | undefined> {
  if (socket === undefined) {
    return undefined;
  }
  try {
    return await listenUnix(listener, socket.path);
  } catch (error) {
    if (!(error instanceof UnixSocketError) || error.isTaken || socket.isRequired) {
      throw error;
    }
    log.warn(`the API is not served on a Unix socket: ${error.message}`);
    return undefined;
  }
}

/** Exempt from load shedding: an operator must be able to check health and to revoke tokens under load. */
const exempt: ReadonlySet<DescMethod> = new Set([
  ...HealthService.methods,
  AuthService.method.revokeToken,
  TokensService.method.deleteToken,
  TokensService.method.revokeTokens,
]);

/** The longest delay of a timer; with a longer one, Node fires it at once. */
const maxTimerMs = 2_147_483_647;

/** Limit of a health or reflection request, which contains a name at most. */
const maxNameBytes = 4 * 1024;

type IsTrusted = ReturnType<typeof createTrust>;

function createServer(options: ServerOptions, drainSignal: AbortSignal, stack: AsyncDisposableStack) {
  const { log, limits, trustedProxies = [], observer = silentObserver, tracing } = options;
  const isTrusted = createTrust(trustedProxies);
  const { findRoute, health, methods, endStreams } = createHandlers(options, isTrusted);
  const share = shareOfRuntime(limits);
  const logLimit = createLimitLog(log);
  const onRuntimeSurplus = createRuntimeAlarm(options, (limit) => {
    logLimit(limit);
    observer.limitReached(limit);
  });
  const pipeline = createPipeline({
    environment: {
      client: createClientReader(isTrusted),
      requestIdOf: createRequestIds(),
      readWorkload: options.identity && createReadWorkload(options.identity, isTrusted),
      observer,
      ...limitMemory(options, observer),
      onEnd: createRequestLog(log),
      findRoute,
    },
    guards: createGuards({ ...options, observer }, { isTrusted, methods, share, onRuntimeSurplus }, stack),
    traceRoot: tracing?.root,
    log,
  });
  const openListener = (more: Partial<ListenerOptions>) => {
    const notified = Promise.withResolvers<void>();
    const listener = createListener(pipeline.handle, {
      ...limits,
      onLimit(limit) {
        logLimit(limit);
        observer.limitReached(limit);
      },
      onMalformed: pipeline.malformed,
      drainSignal,
      onClientsNotified: notified.resolve,
      ...more,
      ...options.listener,
    });
    return { listener, notified: notified.promise };
  };
  return {
    tcp: openListener({
      isProxy: isTrusted,
      runtimeShare: share,
      onRuntimeSurplus,
      ...(options.runtimeProcess && { runtimeSockets: createRuntimeSockets(options.runtimeProcess) }),
      ...(options.tls && {
        detectProtocol: createTls(options.tls, log, (reason) => observer.tlsHandshakeFailed(reason)),
      }),
      onDegraded: (message) => log.warn(message),
    }),
    // Without TLS: the bytes do not leave the machine.
    unix: openListener({ isUnixSocket: true }),
    health,
    endStreams,
  };
}

/** The RPCs over every protocol, the REST API and the other endpoints. */
function createHandlers({ log, deferred = [], limits, ...options }: ServerOptions, isTrusted: IsTrusted) {
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
    const rpcOptions = { readMaxBytes: Math.min(maxNameBytes, bodyBytes) };
    const watchers = createClientCounter(maxWatchesPerClient, isTrusted);
    router.service(HealthService, healthService(health, watchers), rpcOptions);
    if (options.reflection === true) {
      registerReflection(router, services, rpcOptions);
    }
  };

  const interceptors = [...(options.tracing?.isOn === true ? [activateTrace] : []), ...options.interceptors];
  const rpcs = createRpcRoutes({
    routes,
    requestGate: options.gate,
    interceptors,
    registry: createReachableRegistry(methods),
    readMaxBytes: bodyBytes,
    deferred,
    maxTimeoutMs: deadlineMs,
    registerStream: openStreams.register,
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
  const endStreams = (): void => {
    health.close();
    openStreams.close();
    closing.abort();
  };
  return { findRoute, health, methods, endStreams };
}

/** The budget for bodies, and the limit of messages that are decoded on the event loop. */
function limitMemory(
  { limits: { memoryMb, memoryWaitMs = 10_000 }, deferred = [], log }: ServerOptions,
  observer: Observer,
): Pick<RequestEnvironment, "memory" | "assertDecodable"> {
  if (memoryMb === undefined) {
    return { memory: undefined, assertDecodable: undefined };
  }
  const report = createOverloadReporter(log, observer);
  return {
    memory: createMemoryBudget({
      bytes: memoryMb * 1024 * 1024,
      waitMs: memoryWaitMs,
      createError: () => report("memory"),
    }),
    assertDecodable({ route: { method }, headers }, body) {
      if (method !== undefined && !isDeferred(method, deferred)) {
        const isBinary = /^application\/(?:proto|grpc(?:-web)?(?:\+proto)?)\s*(?:;|$)/i.test(
          headers["content-type"] ?? "",
        );
        assertDecodable(method.input, isBinary ? "proto" : "json", body, memoryMb);
      }
    },
  };
}

/** The share of the flow runtime: a tenth of the limits of one client. */
function shareOfRuntime({ connectionsPerSource, inFlightPerSource, inFlight }: ServerOptions["limits"]) {
  const tenthOf = (limit: number): number => Math.max(1, Math.floor(limit / 10));
  return {
    connections: tenthOf(connectionsPerSource ?? listenerDefaults.connectionsPerSource),
    calls: tenthOf(inFlightPerSource || inFlight || Number.POSITIVE_INFINITY),
  };
}

type GuardContext = {
  readonly isTrusted: IsTrusted;
  readonly methods: readonly DescMethod[];
  readonly share: ListenerOptions["runtimeShare"];
  readonly onRuntimeSurplus: () => void;
};

/** In order of execution. */
function createGuards(
  options: ServerOptions & { readonly observer: Observer },
  { isTrusted, methods, share, onRuntimeSurplus }: GuardContext,
  stack: AsyncDisposableStack,
): Guard[] {
  const { browserSafety, cors, observer, limits, log, identified = new Set() } = options;
  const guards: Guard[] = [addSecurityHeaders];
  if (browserSafety !== undefined) {
    guards.push(createPageGuard({ ...browserSafety, isListed: createOriginCheck(cors?.origins ?? []) }));
  }
  if (cors !== undefined) {
    guards.push(createCorsGuard(cors, methods));
  }
  const { inFlight = 0, inFlightPerSource = 0, eventLoopDelayMs = 0 } = limits;
  const load = stack.use(
    createLoadGuard({
      inFlight,
      inFlightPerSource,
      eventLoopDelayMs,
      isProxy: isTrusted,
      identified,
      runtimeCalls: share.calls,
      onRuntimeSurplus,
      log,
      observer,
    }),
  );
  return [...guards, load.guard];
}

function servicesOf(routes: ServerOptions["routes"]): DescService[] {
  const router = createConnectRouter();
  routes(router);
  return [...new Set(router.handlers.map(({ service }) => service))];
}
