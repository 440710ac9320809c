import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { hostname } from "node:os";
import { join } from "node:path";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Logger } from "pino";
import { createProbations } from "./deployments/probations.ts";
import { openOutcomeRecorder } from "./deployments/outcome-recorder.ts";
import { openRetention } from "./deployments/retention.ts";
import { drain } from "./drain.ts";
import { deploymentTypeNames } from "./flows/deployment-type.ts";
import { type Options, type OptionsInput, parseOptions } from "./options/parse.ts";
import { createClusterRuntime } from "./replicas/cluster-runtime.ts";
import { reportReplica } from "./replicas/report.ts";
import { openRuntimeByMode } from "./replicas/runtime-by-mode.ts";
import { followRevisions } from "./runtime/follow-revisions.ts";
import { endLeftovers } from "./runtime/leftover.ts";
import type { RuntimeOptions } from "./runtime/options.ts";
import { createProtectedPorts } from "./runtime/protected-ports.ts";
import { runtimeStates, type RuntimeStatus } from "./runtime/runtime.ts";
import { openCertificates } from "./server/listener/certificates.ts";
import type { openMetricsServer } from "./server/metrics-endpoint.ts";
import { connectionEndingLimits } from "./server/limit-log.ts";
import { sheddingReasons } from "./server/guards/load-shedding.ts";
import { createLog } from "./server/log.ts";
import { tlsFailures } from "./server/listener/tls.ts";
import { metricsHosts, openServerOptions } from "./server-options.ts";
import { logHealth } from "./store/log-health.ts";
import { lockDataDir } from "./store/lock.ts";
import { openStore } from "./store/open-store.ts";
import type { Retention } from "./store/flow-store.ts";
import type { Store } from "./store/store.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import { readTraceparent, traceIds } from "./telemetry/trace.ts";
import { openTracing } from "./telemetry/tracing.ts";

/** A running service. Disposing drains it without a delay, stops the flows and closes the store. */
export interface Gateway extends AsyncDisposable {
  /** The base URL of the API. */
  readonly url: string;
  /** The URL of the API documentation; undefined without `docs`. */
  readonly docsUrl: string | undefined;
  /** The path of the Unix socket that serves the API; undefined if there is none. */
  readonly socketPath: string | undefined;
  /** The URL of the metrics; undefined without `metrics.port`. */
  readonly metricsUrl: string | undefined;
  runtimeStatus(): RuntimeStatus;
  /**
   * Reads the certificate files of `tls` now, instead of when a change is detected. The result is logged. Without `tls`, nothing
   * happens.
   */
  reloadCertificates(): Promise<void>;
  /**
   * Replaces the users by the `adminAuth` of the options that `read` resolves with, without interrupting flows and calls. Tokens
   * of unchanged users stay valid. If `read` rejects or the options are invalid, the previous users stay in force. The result
   * is logged, with the message of an error, and written to the audit log. Other changed options are named in the log.
   */
  reloadUsers(read: () => GatewayOptions | Promise<GatewayOptions>): Promise<void>;
  /**
   * Shuts down like disposing, but keeps accepting calls for `delayMs` before, while health reports not ready. Defaults
   * to `drain.delayMs`.
   */
  drain(delayMs?: number): Promise<void>;
}

/** Partial options, or complete ones from `parseOptions`. docs/configuration.md describes them. */
export type GatewayOptions = (Omit<OptionsInput, "store"> | Omit<Options, "store">) & {
  /**
   * A URL, as in the configuration; or a store, which stays open when the gateway is disposed. Flows that are committed
   * directly to this store are served, but not run: deploy through the gateway.
   */
  readonly store?: string | Store | undefined;
};

/**
 * Opens the store, starts the runtime and then the server. If a step fails, the previous ones are undone. Resolves when
 * the server listens; the flows may still be starting, see `GET /readyz`.
 *
 * Rejects with an OptionsError that lists each option that is unknown or invalid. `customLog` replaces the log of
 * `log.level` on stdout.
 */
export async function openGateway(partialOptions: GatewayOptions = {}, customLog?: Logger): Promise<Gateway> {
  const { options, customStore } = readOptions(partialOptions);
  const log = customLog ?? createLog(options.log);
  await using stack = new AsyncDisposableStack();
  const certificates = options.tls && stack.use(await openCertificates(options.tls, log));
  stack.use(lockDataDir(options.dataDir));
  const processFile = join(options.dataDir, "runtime-process");
  await endLeftovers(processFile, log);
  const version = readVersion();
  const tracing = stack.use(await openTracing(options.tracing, { version, log }));
  const store = customStore ?? stack.use(await openStore(options));
  stack.use(logHealth(store, log));
  const { cluster } = store;
  const protectedPorts = createProtectedPorts();
  // Before the server listens, so that no flow takes them.
  protectedPorts.add(options.port);
  protectedPorts.add(options.metrics.port);
  const runtime = stack.use(
    openRuntimeByMode(
      {
        ...options.runtime,
        processFile,
        protectedPorts,
        active: async () => store.flows.active(),
        log: createRuntimeLog(log),
        logLevel: options.log.level === "silent" ? "fatal" : options.log.level,
      },
      { ...options.runtime, cluster, log },
    ),
  );
  stack.use(followRevisions(store.flows, runtime));
  const { deadlineMs } = options.runtime;
  const allRuntimes = cluster === undefined ? runtime : createClusterRuntime({ runtime, cluster, deadlineMs });
  const followed = { store: store.flows, runtime, cluster, log };
  const outcomes = stack.use(openOutcomeRecorder(followed));
  const probations = stack.use(createProbations({ ...followed, deadlineMs, outcomes }));
  await probations.resume();
  stack.use(openRetention(store.flows, toRetention(options.history), log));
  // Loaded while the runtime process starts, which takes about as long.
  const { openServer } = await import("./server/app.ts");
  const metrics = options.metrics.enabled ? await loadMetrics(version, options) : undefined;
  const { serverOptions, users } = openServerOptions(
    {
      options,
      version,
      log,
      store,
      runtime,
      allRuntimes,
      outcomes,
      probations,
      tracing,
      certificates,
      metrics,
      onRuntimeLockOut: (reason) => runtime.distrust(reason),
    },
    stack,
  );
  const server = stack.use(await openServer(serverOptions));
  protectedPorts.add(Number(new URL(server.url).port));
  if (cluster !== undefined) {
    const port = server.url.slice(server.url.lastIndexOf(":") + 1);
    const { mode } = options.runtime;
    stack.use(reportReplica({ cluster, runtime, store: store.flows, name: `${hostname()}:${port}`, version, mode }));
  }
  metrics?.watchReplicas(
    runtimeStates,
    () => cluster?.replicas().map(({ state }) => state) ?? [runtime.status().state],
  );
  metrics?.watchRuntime(runtimeStates, () => ({ ...runtime.processStats(), state: runtime.status().state }));
  metrics?.watchConnections(() => server.connections());
  if (certificates !== undefined) {
    metrics?.watchCertificate(() => certificates.notAfterMs());
  }
  const { host, port } = options.metrics;
  const metricsServer =
    metrics && port !== undefined
      ? stack.use(await loadMetricsServer({ host, port, metrics, log, hosts: metricsHosts(options) }))
      : undefined;
  const { socketPath } = server;
  const metricsUrl = metricsServer?.url;
  if (metricsUrl !== undefined) protectedPorts.add(Number(new URL(metricsUrl).port));
  const docsUrl = options.docs ? `${server.url}/docs` : undefined;
  log.info(
    {
      version,
      url: server.url,
      ...(socketPath !== undefined && { socketPath }),
      ...(docsUrl !== undefined && { docsUrl }),
      ...(metricsUrl !== undefined && { metricsUrl }),
    },
    "started",
  );
  const resources = stack.move();
  let closed: Promise<void> | undefined;
  const close = async (delayMs: number): Promise<void> => {
    await drain({ server, runtime, allRuntimes, probations, log, delayMs, graceMs: options.drain.graceMs });
    await resources.disposeAsync();
  };
  return {
    url: server.url,
    docsUrl,
    socketPath,
    metricsUrl,
    runtimeStatus: () => runtime.status(),
    async reloadCertificates() {
      await certificates?.reload();
    },
    reloadUsers: (read) => users.reload(async () => readOptions(await read()).options),
    drain: (delayMs = options.drain.delayMs) => (closed ??= close(delayMs)),
    [Symbol.asyncDispose]: () => (closed ??= close(0)),
  };
}

function toRetention({ maxRevisions, maxAgeDays }: Options["history"]): Retention {
  return {
    maxCount: maxRevisions,
    maxAgeMs: maxAgeDays === undefined ? undefined : maxAgeDays * 24 * 60 * 60_000,
  };
}

async function loadMetrics(version: string, { tls }: Options): Promise<Metrics> {
  const { createMetrics } = await import("./telemetry/metrics.ts");
  return createMetrics({
    version,
    deploymentTypes: deploymentTypeNames,
    sheddingReasons,
    limits: connectionEndingLimits,
    tlsFailures: tls && tlsFailures,
  });
}

/** Separates a store object from the options, whose schema accepts only a URL. */
function readOptions(input: GatewayOptions): { options: Options; customStore: Store | undefined } {
  const { store, ...others } = Object(input) as GatewayOptions;
  return isStore(store)
    ? { options: parseOptions(others), customStore: store }
    : { options: parseOptions(input as OptionsInput), customStore: undefined };
}

function isStore(value: unknown): value is Store {
  return typeof value === "object" && value !== null && "flows" in value && "tokens" in value && "audit" in value;
}

type OpenMetricsServer = typeof openMetricsServer;

/** Loads the module only if the metrics have a port of their own. */
async function loadMetricsServer(options: Parameters<OpenMetricsServer>[0]): ReturnType<OpenMetricsServer> {
  const { openMetricsServer } = await import("./server/metrics-endpoint.ts");
  return await openMetricsServer(options);
}

/** Writes the log of the runtime and the flows to the log of the service. `source` marks the lines as untrusted. */
function createRuntimeLog(log: Logger): RuntimeOptions["log"] {
  const logs = { runtime: log.child({ source: "runtime" }), flows: log.child({ source: "flows" }) };
  return ({ level, message, traceparent, ...fields }, source) =>
    logs[source][level]({ ...fields, ...traceIds(readTraceparent(ROOT_CONTEXT, traceparent)) }, message);
}

/** The version of this package. */
function readVersion(): string {
  const path = findPackageJSON(import.meta.url);
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}
