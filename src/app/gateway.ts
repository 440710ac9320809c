import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { join } from "node:path";
import type { Logger } from "pino";
import { protectIssuers } from "./authentication.ts";
import { drain } from "./drain.ts";
import { openLive, replicaName } from "./live.ts";
import { loadMetrics, openMetricsPort, watchWithMetrics } from "./metrics.ts";
import { leafOf, replicaAddress } from "./replica-events.ts";
import { openRuntimes } from "./runtimes.ts";
import { openAnalysis } from "../deployments/analysis/analysis.ts";
import { type Options, OptionsError, type OptionsInput, parseOptions } from "../options/parse.ts";
import { FlowStats } from "../runtime/flow-stats.ts";
import { reportReplica } from "../runtime/replicas/runs.ts";
import { endLeftovers } from "../runtime/leftover.ts";
import { endpointOf, ProtectedPorts, protectServers } from "../runtime/protected-ports.ts";
import type { RuntimeStatus } from "../runtime/runtime.ts";
import type { CertificateOptions, Certificates } from "../server/http/certificates.ts";
import { createLog } from "../telemetry/log.ts";
import type { Server } from "../server/open-server.ts";
import type { Mount } from "./mounted-api.ts";
import { openServices, threadLimits } from "./open-services.ts";
import { lockDataDir } from "../store/lock.ts";
import { openStore } from "../store/open-store.ts";
import type { Store } from "../store/store.ts";
import { openTracing } from "../telemetry/trace.ts";

/** A running service. Disposing drains it without a delay, stops the flows and closes the store. */
export interface Gateway extends AsyncDisposable, Mount {
  /** The base URL of the API; empty with `listen: false`. */
  readonly url: string;
  /** The URL of the web console; undefined without `console`. */
  readonly consoleUrl: string | undefined;
  /** The URL of the API documentation; undefined without `docs`. */
  readonly docsUrl: string | undefined;
  /** The path of the Unix socket that serves the API; undefined if there is none. */
  readonly socketPath: string | undefined;
  /** The URL of the metrics; undefined without `metrics.port`. */
  readonly metricsUrl: string | undefined;
  /** The URL of Node-RED's admin API; undefined without `nodeRed.port`. */
  readonly nodeRedUrl: string | undefined;
  runtimeStatus(): RuntimeStatus;
  /**
   * Reads the certificate files of `tls` and `runtime.http.tls` now, instead of when a change is detected. The result is logged. Without
   * these options, nothing happens.
   */
  reloadCertificates(): Promise<void>;
  /**
   * Replaces the users by the `adminAuth` of the options that `read` resolves with, and the secrets of credentials, without interrupting
   * flows and calls. Tokens of unchanged users stay valid. If `read` rejects or the options are invalid, the previous users stay in force. The result
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
  /**
   * Whether the gateway opens a port, and a Unix socket, of its own. With false, the program serves the API by `routes` or `createHandler`.
   * Default: true.
   */
  readonly listen?: boolean | undefined;
};

/**
 * Opens the store, starts the runtime and then the server. If a step fails, the previous ones are undone. Resolves when
 * the server listens; the flows may still be starting, see `GET /readyz`.
 *
 * Rejects with an OptionsError that lists each option that is unknown or invalid. `customLog` replaces the log of
 * `log.level` on stdout.
 */
export async function openGateway(partialOptions: GatewayOptions = {}, customLog?: Logger): Promise<Gateway> {
  const { options, customStore, listen } = readOptions(partialOptions);
  const log = customLog ?? createLog(options.log);
  await using stack = new AsyncDisposableStack();
  const certificates = options.tls && stack.use(await loadCertificates(options.tls, log));
  const flowTls = options.runtime.mode === "none" ? undefined : options.runtime.http.tls;
  const flowCertificates = flowTls && stack.use(await loadCertificates({ ...flowTls, name: "runtime.http.tls" }, log));
  stack.use(lockDataDir(options.dataDir));
  const processFile = join(options.dataDir, "runtime-process");
  await endLeftovers(processFile, log);
  const version = readVersion();
  const tracing = stack.use(await openTracing(options.tracing, { version, log }));
  const store = customStore ?? stack.use(await openStore(options));
  stack.use(logHealth(store, log));
  stack.use(logKeys(store, log));
  const { cluster } = store;
  const protectedPorts = new ProtectedPorts();
  // Before the server listens, so that no flow takes them.
  if (listen) {
    protectedPorts.add(options.port);
  }
  protectedPorts.add(options.metrics.port);
  protectedPorts.add(options.nodeRed.port);
  const collector = options.tracing === undefined ? [] : [endpointOf(options.tracing.endpoint)];
  protectServers(protectedPorts, [...store.endpoints, ...collector], options.runtime);
  protectIssuers(options.adminAuth, protectedPorts, options.runtime);
  const initialName = replicaName(listen ? options.port : undefined);
  const live = await openLive({ options, log, store, certificates, name: initialName }, stack);
  const analysis = stack.use(openAnalysis({ log, ...threadLimits(options) }));
  const stats = options.metrics.enabled ? new FlowStats() : undefined;
  const runtimes = await openRuntimes(
    { options, log, store, live, analysis, stats, tracing, processFile, protectedPorts, flowCertificates },
    stack,
  );
  const { runtime } = runtimes;
  // Loaded while the runtime process starts, which takes about as long.
  const [{ createMemoryBudget, openServer }, { createMount }] = await Promise.all([
    import("../server/open-server.ts"),
    import("./mount.ts"),
  ]);
  const metrics = await loadMetrics(version, options);
  if (options.webhooks.targets.length > 0) {
    const { openWebhooks } = await import("./webhooks.ts");
    const { hub, journal } = live;
    await openWebhooks({ options, hub, journal, cluster, metrics, version, log }, stack);
  }
  let toolsPort: number | undefined;
  const components = {
    options,
    version,
    log,
    store,
    live,
    analysis,
    ...runtimes,
    stats,
    tracing,
    certificates,
    metrics,
    protectedPorts,
    toolsPort: () => toolsPort,
  };
  const { serverOptions, users, authenticator, editorSignIn, audit } = await openServices(components, stack);
  const memory = createMemoryBudget(serverOptions);
  const server = listen ? stack.use(await openServer({ ...serverOptions, memory })) : createNoServer();
  if (listen) {
    protectedPorts.add(server.port);
  }
  const closing = new AbortController();
  stack.defer(() => closing.abort());
  const shutdownSignal = closing.signal;
  const mount = createMount({ ...serverOptions, options, shutdownSignal });
  const apiPort = listen ? server.port : undefined;
  const toolsOptions = {
    ...components,
    authenticator,
    editorSignIn,
    audit,
    serverOptions,
    apiPort,
    memory,
    shutdownSignal,
  };
  const tools =
    options.nodeRed.port === undefined ? undefined : await (await import("./tools.ts")).openTools(toolsOptions, stack);
  toolsPort = tools?.port;
  protectedPorts.add(toolsPort);
  if (cluster !== undefined) {
    // The port may have been chosen by the system.
    const name = replicaName(apiPort);
    live.rename(name);
    const { mode } = options.runtime;
    const { flows, desired } = store;
    const certificate = (): string | undefined => leafOf(certificates);
    const onCertificateChange = (listener: () => void): void => certificates?.onChange(listener);
    const address = replicaAddress(options, server);
    const onModulesChange = (listener: () => void): Disposable => runtimes.moduleFollower.onChange(listener);
    const health = runtimes.monitor;
    const self = { name, version, mode, health, address, certificate, onCertificateChange, onModulesChange };
    stack.use(reportReplica({ cluster, runtime, store: flows, desired, ...self }));
  }
  if (metrics !== undefined) {
    watchWithMetrics(metrics, { ...runtimes, cluster, server, journal: live.journal, certificates, stats, options });
  }
  const metricsServer = stack.use(await openMetricsPort(metrics, options, log));
  const { socketPath } = server;
  const metricsUrl = metricsServer?.url;
  if (metricsUrl !== undefined) {
    protectedPorts.add(Number(new URL(metricsUrl).port));
  }
  const consoleUrl = options.console && listen ? `${server.url}/console` : undefined;
  const docsUrl = options.docs && listen ? `${server.url}/docs` : undefined;
  log.info(
    {
      version,
      ...(listen && { url: server.url }),
      ...(socketPath !== undefined && { socketPath }),
      ...(consoleUrl !== undefined && { consoleUrl }),
      ...(docsUrl !== undefined && { docsUrl }),
      ...(metricsUrl !== undefined && { metricsUrl }),
      ...(tools !== undefined && { nodeRedUrl: tools.url }),
    },
    "started",
  );
  const resources = stack.move();
  let closed: Promise<void> | undefined;
  const close = async (delayMs: number): Promise<void> => {
    await drain({ server, tools, ...runtimes, log, delayMs, graceMs: options.drain.graceMs });
    await resources.disposeAsync();
  };
  return {
    routes: mount.routes,
    contextValues: mount.contextValues,
    errors: mount.errors,
    createHandler: mount.createHandler,
    url: server.url,
    consoleUrl,
    docsUrl,
    socketPath,
    metricsUrl,
    nodeRedUrl: tools?.url,
    runtimeStatus: () => runtime.status(),
    async reloadCertificates() {
      await Promise.all([certificates?.reload(), flowCertificates?.reload()]);
    },
    reloadUsers: (read) => users.reload(async () => readOptions(await read()).options),
    drain: (delayMs = options.drain.delayMs) => (closed ??= close(delayMs)),
    [Symbol.asyncDispose]: () => (closed ??= close(0)),
  };
}

/** Loads node:tls, which takes a service without TLS 20 ms of CPU time. */
async function loadCertificates(options: CertificateOptions, log: Logger): Promise<Certificates> {
  const { openCertificates } = await import("../server/http/certificates.ts");
  return openCertificates(options, log);
}

/** Separates what a program alone can set: a store object, for which the schema has only a URL, and `listen`. */
function readOptions(input: GatewayOptions): {
  options: Options;
  customStore: Store | undefined;
  listen: boolean;
} {
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  const { listen = true, ...known } = Object(input) as GatewayOptions;
  if (typeof listen !== "boolean") {
    throw new OptionsError([{ path: ["listen"], message: "must be true or false" }]);
  }
  const { store, ...others } = known;
  return isStore(store)
    ? { options: parseOptions(others), customStore: store, listen }
    : { options: parseOptions((isObject ? known : input) as OptionsInput), customStore: undefined, listen };
}

function isStore(value: unknown): value is Store {
  return typeof value === "object" && value !== null && "flows" in value && "tokens" in value && "audit" in value;
}

/** Stands for the server with `listen: false`. */
function createNoServer(): Server {
  return {
    url: "",
    port: 0,
    socketPath: undefined,
    drain() {},
    connections: () => 0,
    async [Symbol.asyncDispose]() {},
  };
}

/** The version of this package. */
function readVersion(): string {
  const path = findPackageJSON(import.meta.url);
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Logs when the store fails, and when it can be used again. Disposing ends it. */
function logHealth(store: Store, log: Logger): Disposable {
  return store.onHealthChange(() => {
    const health = store.health();
    if (health.isUsable) {
      log.info("the store can be used again");
    } else {
      log.error(`the store has failed: ${health.message}`);
    }
  });
}

/** Logs whether credentials are encrypted with the configured secret, now if they are not, and after each change. Disposing ends it. */
function logKeys({ keys }: Store, log: Logger): Disposable {
  const isConfigured = (): boolean => keys.current().id === keys.configured().id;
  const warn = (): void =>
    log.warn("credentials are encrypted with a previous secret: run flowgate credentials rotate to replace it");
  let wasConfigured = isConfigured();
  if (!wasConfigured) {
    warn();
  }
  return keys.onChange(() => {
    if (keys.problem() === undefined && isConfigured() !== wasConfigured) {
      wasConfigured = !wasConfigured;
      if (wasConfigured) {
        log.info("credentials are encrypted with the configured secret from now on");
      } else {
        warn();
      }
    }
  });
}
