import { isDeferred } from "@flowgate/gateway/server";
import { type Observer, silentObserver } from "../telemetry/observer.ts";
import { createHandlers } from "./endpoints/handlers.ts";
import { createLimitLog } from "./http/limit-log.ts";
import { listenUnix, UnixSocketError } from "./http/listen-unix.ts";
import { listenerDefaults, type ListenerOptions } from "./http/listener-options.ts";
import { createListener, type Listener } from "./http/listener.ts";
import { createRuntimeSockets } from "./http/runtime-sockets.ts";
import { createTls } from "./http/tls.ts";
import { assertDecodable } from "./memory/decoding-limit.ts";
import { createMemoryBudget } from "./memory/memory-budget.ts";
import { defaultMemoryWaitMs, type ServerOptions } from "./options.ts";
import { createClientReader, createReadWorkload, createTrust } from "./pipeline/client.ts";
import { createGuards } from "./pipeline/guards/create-guards.ts";
import { createOverloadReporter } from "./pipeline/guards/load-shedding.ts";
import { createPipeline, createRequestLog } from "./pipeline/pipeline.ts";
import { createRequestIds, type RequestEnvironment } from "./pipeline/request-context.ts";

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
  // Before they listen: if the port can't be opened, an open socket would keep the process running.
  stack.defer(async () => {
    const listeners = [tcp, unix];
    // Open streams would delay the end. By then their clients have been notified, and can reopen them elsewhere.
    void Promise.all(listeners.map(({ notified }) => notified)).then(endStreams);
    await Promise.all(listeners.map(({ listener }) => new Promise((resolve) => void listener.close(resolve))));
  });
  stack.defer(drain);
  // First, so that a port is not served if the socket can't be.
  const socket = stack.use(await openSocket(unix.listener, options));
  const { address, family, port } = await tcp.listener.listenOn(options.host, options.port);
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

function createServer(options: ServerOptions, drainSignal: AbortSignal, stack: AsyncDisposableStack) {
  const { log, limits, trustedProxies = [], observer = silentObserver, tracing } = options;
  const isTrusted = createTrust(trustedProxies);
  const { findRoute, health, methods, endStreams } = createHandlers(options, isTrusted);
  const share = shareOfRuntime(limits);
  const logLimit = createLimitLog(log);
  const onLimit = (limit: Parameters<typeof logLimit>[0]): void => {
    logLimit(limit);
    observer.limitReached(limit);
  };
  const onRuntimeSurplus = createRuntimeAlarm(options, onLimit);
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
    guards: createGuards({ ...options, observer }, { isProxy: isTrusted, methods, share, onRuntimeSurplus }, stack),
    traceRoot: tracing?.root,
    log,
  });
  const openListener = (more: Partial<ListenerOptions>) => {
    const notified = Promise.withResolvers<void>();
    const listener = createListener(pipeline.handle, {
      ...limits,
      onLimit,
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

/** The budget for bodies, and the limit of messages that are decoded on the event loop. */
function limitMemory(
  { limits: { memoryMb, memoryWaitMs = defaultMemoryWaitMs }, deferred = [], log }: ServerOptions,
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
    assertDecodable({ route: { method }, messageFormat }, body) {
      if (method !== undefined && !isDeferred(method, deferred)) {
        assertDecodable(method.input, messageFormat, body, memoryMb);
      }
    },
  };
}

const intervalMs = 10_000;

const reason = "flows used up their share of the connections and calls of the API";

/**
 * Returns a function to call whenever a process of the flow runtime exceeds its share. Counts each time, and logs at most every 10 s.
 * What is left of an earlier process is no reason to distrust the current one.
 */
function createRuntimeAlarm(
  { log, runtimeProcess, onRuntimeAbuse }: Pick<ServerOptions, "log" | "runtimeProcess" | "onRuntimeAbuse">,
  onLimit: (limit: "runtime") => void,
): (processId: number | undefined) => void {
  let nextMs = 0;
  return (processId) => {
    onLimit("runtime");
    if (processId !== undefined && processId === runtimeProcess?.processId()) {
      onRuntimeAbuse?.(reason);
    }
    const nowMs = performance.now();
    if (nowMs >= nextMs) {
      nextMs = nowMs + intervalMs;
      log.warn(`${reason}: further ones are closed`);
    }
  };
}

/** The share of the flow runtime: a tenth of the limits of one client. */
function shareOfRuntime({
  connectionsPerSource,
  inFlightPerSource,
  inFlight,
}: ServerOptions["limits"]): ListenerOptions["runtimeShare"] {
  const tenthOf = (limit: number): number => Math.max(1, Math.floor(limit / 10));
  return {
    connections: tenthOf(connectionsPerSource ?? listenerDefaults.connectionsPerSource),
    calls: tenthOf(inFlightPerSource || inFlight || Number.POSITIVE_INFINITY),
  };
}
