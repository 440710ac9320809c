import { silentObserver } from "../telemetry/observer.ts";
import { createHandlers } from "./create-handlers.ts";
import { createLimitLog } from "./http/limit-log.ts";
import { listenUnix, UnixSocketError } from "./http/listen-unix.ts";
import type { ListenerOptions } from "./http/listener-options.ts";
import { createListener, type Listener } from "./http/listener.ts";
import { assertDecodable } from "../base/decoding-limit.ts";
import { MemoryBudget } from "./memory/memory-budget.ts";
import { createClientReader, createReadWorkload, createTrust } from "./pipeline/client.ts";
import { createGuards } from "./pipeline/guards/create-guards.ts";
import { createOverloadReporter } from "./pipeline/guards/load-shedding.ts";
import { createPipeline, createRequestLog } from "./pipeline/pipeline.ts";
import { createRequestIds, type RequestEnvironment } from "./pipeline/request-context.ts";
import type { ServerOptions } from "./server-options.ts";

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
  connections(): number;
}

/** Serves the RPCs over every protocol, and the health of the service, on one port and a Unix socket. */
export async function openServer(options: ServerOptions): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const draining = new AbortController();
  const { tcp, unix, health, endStreams } = await createServer(options, draining.signal, stack);
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

async function createServer(options: ServerOptions, drainSignal: AbortSignal, stack: AsyncDisposableStack) {
  const { log, limits, trustedProxies = [], observer = silentObserver, tracing } = options;
  const isTrusted = createTrust(trustedProxies);
  const { findRoute, health, methods, endStreams } = createHandlers(options, isTrusted);
  const logLimit = createLimitLog(log);
  const onLimit = (limit: Parameters<typeof logLimit>[0]): void => {
    logLimit(limit);
    observer.limitReached(limit);
  };
  const tls =
    options.tls &&
    (await import("./http/tls.ts")).createTls(options.tls, log, (reason) => observer.tlsHandshakeFailed(reason));
  const pipeline = createPipeline({
    environment: {
      client: createClientReader(isTrusted),
      requestIdOf: createRequestIds(),
      readWorkload: options.identity && createReadWorkload(options.identity, isTrusted),
      findCookies: options.signIn?.findCookies,
      observer,
      ...limitMemory(options),
      onEnd: createRequestLog(log),
      findRoute,
    },
    guards: createGuards(options, { isProxy: isTrusted, methods, log, observer }, stack),
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
      ...(tls && { detectProtocol: tls }),
      onDegraded: (message) => log.warn(message),
    }),
    // Without TLS: the bytes do not leave the machine.
    unix: openListener({ isUnixSocket: true }),
    health,
    endStreams,
  };
}

export function createMemoryBudget({
  limits,
  log,
  observer = silentObserver,
}: Pick<ServerOptions, "limits" | "log" | "observer">): MemoryBudget | undefined {
  if (limits.memoryMb === undefined) {
    return undefined;
  }
  const { memoryMb, memoryWaitMs } = limits;
  const report = createOverloadReporter(log, observer);
  return new MemoryBudget({
    capacityBytes: memoryMb * 1024 * 1024,
    waitMs: memoryWaitMs,
    createError: () => report("memory"),
  });
}

/** The budget for bodies, and the limit of messages that are decoded on the event loop. */
function limitMemory(options: ServerOptions): Pick<RequestEnvironment, "memory" | "assertDecodable"> {
  const {
    limits: { memoryMb },
    deferred = [],
    memory = createMemoryBudget(options),
  } = options;
  if (memoryMb === undefined) {
    return { memory, assertDecodable: undefined };
  }
  return {
    memory,
    assertDecodable({ route: { method }, messageFormat }, body) {
      if (method !== undefined && !deferred.includes(method)) {
        assertDecodable(method.input, messageFormat, body, memoryMb);
      }
    },
  };
}
