import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import type { DescService } from "@bufbuild/protobuf";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Logger } from "pino";
import type { AdminAuth } from "./auth/admin-auth.ts";
import { openAnalysis } from "./analysis/analysis.ts";
import { type AuditRecorder, openAuditRecorder } from "./auth/audit-recorder.ts";
import { type Authenticator, createAuthenticator } from "./auth/authenticator.ts";
import { createLimiter } from "./auth/limiter.ts";
import { openTokenCache } from "./auth/token-cache.ts";
import { openTokenUses } from "./auth/token-uses.ts";
import type { AccessRule } from "./auth/access.ts";
import { createGate, createPermissionCheck } from "./auth/gate.ts";
import { FlowsService } from "../gen/flowgate/v1/flows_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { createObservedDeployer } from "./deployments/observe.ts";
import { createProbations, type Probations } from "./deployments/probations.ts";
import { openOutcomeRecorder, type OutcomeRecorder } from "./deployments/outcome-recorder.ts";
import { openRetention } from "./deployments/retention.ts";
import { drain } from "./drain.ts";
import type { Decrypt } from "./flows/credentials.ts";
import { deploymentTypeNames } from "./flows/deployment-type.ts";
import { decryptCredentials } from "./flows/encrypted.ts";
import { isLoopback } from "./loopback.ts";
import { type Options, type OptionsInput, parseOptions } from "./options/parse.ts";
import { openPreparation } from "./preparation/preparation.ts";
import { createUserReload, type UserReload } from "./reload-users.ts";
import { followRevisions } from "./runtime/follow-revisions.ts";
import { openRuntime } from "./runtime/supervisor.ts";
import type { RuntimeOptions } from "./runtime/options.ts";
import { type Runtime, runtimeStates, type RuntimeStatus } from "./runtime/runtime.ts";
import type { ServerOptions } from "./server/app.ts";
import type { ReadinessOptions } from "./server/health.ts";
import { type Certificates, openCertificates } from "./server/listener/certificates.ts";
import type { openMetricsServer } from "./server/metrics-endpoint.ts";
import { connectionEndingLimits } from "./server/limit-log.ts";
import { sheddingReasons } from "./server/guards/load-shedding.ts";
import { createLog } from "./server/log.ts";
import { reflectionServices } from "./server/rpc/reflection.ts";
import { tlsFailures } from "./server/listener/tls.ts";
import { auditService } from "./services/audit.ts";
import { authService } from "./services/auth.ts";
import { flowsService } from "./services/flows/service.ts";
import { createRoutes, permissions, services } from "./services/routes.ts";
import { revisionsService } from "./services/revisions/service.ts";
import { settingsService } from "./services/settings.ts";
import { tokensService } from "./services/tokens.ts";
import { openAuditRetention } from "./store/audit-retention.ts";
import { lockDataDir } from "./store/lock.ts";
import { openStore } from "./store/open-store.ts";
import type { Retention, Store } from "./store/store.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import { silentObserver } from "./telemetry/observer.ts";
import type { StoreMetrics } from "./telemetry/stores.ts";
import { readTraceparent, traceIds } from "./telemetry/trace.ts";
import { openTracing, type Tracing } from "./telemetry/tracing.ts";

/** A running service. Disposing drains it without a delay, stops the flows and closes the store. */
export interface Gateway extends AsyncDisposable {
  /** The base URL of the API. */
  readonly url: string;
  /** The URL of the API documentation; undefined without `docs`. */
  readonly docsUrl: string | undefined;
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
  const version = readVersion();
  const tracing = stack.use(await openTracing(options.tracing, { version, log }));
  const store = customStore ?? stack.use(await openStore(options));
  const runtime = stack.use(
    openRuntime({
      ...options.runtime,
      active: async () => store.flows.active(),
      log: createRuntimeLog(log),
      logLevel: options.log.level === "silent" ? "fatal" : options.log.level,
    }),
  );
  stack.use(followRevisions(store.flows, runtime));
  const outcomes = stack.use(openOutcomeRecorder(store.flows, runtime, log));
  const probations = stack.use(createProbations({ store: store.flows, runtime, outcomes, log }));
  await probations.resume();
  stack.use(openRetention(store.flows, toRetention(options.history), log));
  // Loaded while the runtime process starts, which takes about as long.
  const { openServer } = await import("./server/app.ts");
  const metrics = options.metrics.enabled ? await loadMetrics(version, options) : undefined;
  const { serverOptions, users } = connect(
    { options, version, log, store, runtime, outcomes, probations, tracing, certificates, metrics },
    stack,
  );
  const server = stack.use(await openServer(serverOptions));
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
  const metricsUrl = metricsServer?.url;
  const docsUrl = options.docs ? `${server.url}/docs` : undefined;
  log.info(
    {
      version,
      url: server.url,
      ...(docsUrl !== undefined && { docsUrl }),
      ...(metricsUrl !== undefined && { metricsUrl }),
    },
    "started",
  );
  const resources = stack.move();
  let closed: Promise<void> | undefined;
  const close = async (delayMs: number): Promise<void> => {
    await drain({ server, runtime, probations, log, delayMs, graceMs: options.drain.graceMs });
    await resources.disposeAsync();
  };
  return {
    url: server.url,
    docsUrl,
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

type Components = {
  readonly options: Options;
  readonly version: string;
  readonly log: Logger;
  readonly store: Store;
  readonly runtime: Runtime;
  readonly outcomes: OutcomeRecorder;
  readonly probations: Probations;
  readonly tracing: Tracing;
  readonly certificates: Certificates | undefined;
  readonly metrics: Metrics | undefined;
};

/** Connects the services with the store and the runtime. Resources that the server needs are added to the stack. */
function connect(
  {
    options,
    version,
    log,
    store: plainStore,
    runtime,
    outcomes,
    probations,
    tracing,
    certificates,
    metrics,
  }: Components,
  stack: AsyncDisposableStack,
): { serverOptions: ServerOptions; users: UserReload } {
  const observer = metrics?.observer ?? silentObserver;
  const store = metrics === undefined ? plainStore : measureStore(plainStore, metrics.stores);
  const { audit, authenticator, users } = openAuthentication({ options, log, store }, stack);
  const decrypt: Decrypt = (encrypted) => decryptCredentials(options.credentialSecret, encrypted);
  const analysis = stack.use(openAnalysis(log));
  const deployer = createObservedDeployer({
    store: store.flows,
    audit: store.audit,
    analysis,
    runtime,
    probations,
    log,
    observer,
  });
  const preparation = stack.use(openPreparation({ credentialSecret: options.credentialSecret, decrypt, log }));
  const serverOptions: ServerOptions = {
    host: options.host,
    port: options.port,
    log,
    gate: createGate(authenticator, services, audit, accessToServer(options.reflection)),
    interceptors: [],
    deferred: [FlowsService.method.setFlows, FlowsService.method.planFlows],
    routes: createRoutes({
      auth: authService(authenticator),
      flows: flowsService({
        store: store.flows,
        deployer,
        prepare: (request, current) => preparation.prepare(request, current),
        decrypt,
        analysis,
        runtime,
      }),
      revisions: revisionsService({ store: store.flows, deployer, outcomes, analysis }),
      settings: settingsService(version, runtime),
      tokens: tokensService(authenticator, store.tokens),
      audit: auditService(store.audit),
    }),
    ...createReadiness(runtime, store),
    listener: {
      closeGraceMs: options.drain.graceMs,
      onForcedClose: (connections) =>
        log.warn({ connections }, "draining: connections were closed with calls in flight"),
    },
    docs: options.docs,
    reflection: options.reflection !== "off",
    limits: options.limits,
    observer,
    tracing,
    metrics:
      metrics && options.metrics.port === undefined
        ? { metrics, checkPermission: createPermissionCheck(authenticator, "metrics.read", audit) }
        : undefined,
    browserSafety: browserSafety(options, () => users.adminAuth()),
    cors: options.cors,
    tls: options.tls && certificates && { certificates, clientCertificate: options.tls.clientCertificate },
    trustedProxies: options.trustedProxies,
    identity: options.identity?.source,
  };
  return { serverOptions, users };
}

function toRetention({ maxRevisions, maxAgeDays }: Options["history"]): Retention {
  return {
    maxCount: maxRevisions,
    maxAgeMs: maxAgeDays === undefined ? undefined : maxAgeDays * 24 * 60 * 60_000,
  };
}

/** Authentication, and the recording of its events. */
function openAuthentication(
  { options, log, store }: Pick<Components, "options" | "log" | "store">,
  stack: AsyncDisposableStack,
): { audit: AuditRecorder; authenticator: Authenticator; users: UserReload } {
  stack.use(openAuditRetention({ store: store.audit, retentionDays: options.audit.retentionDays, log }));
  const audit = stack.use(openAuditRecorder({ store: store.audit, log }));
  const authenticator = createAuthenticator({
    adminAuth: options.adminAuth,
    tokens: stack.use(openTokenCache(store.tokens)),
    uses: stack.use(openTokenUses(store.tokens, log)),
    audit,
    permissions,
    limiter: createLimiter(store.logins, (locked, client) =>
      log.info({ locked, client }, "too many failed logins: this user or client is locked out temporarily"),
    ),
    identities: options.identity?.rules,
  });
  const replace = (adminAuth: AdminAuth): void => authenticator.replaceAdminAuth(adminAuth);
  return { audit, authenticator, users: createUserReload({ options, replace, audit, log }) };
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

/**
 * Ready once the runtime has started the stored flows, or has failed to. It stays ready when flows fail later, since the
 * service must be reachable for the deployment that fixes them.
 */
function createReadiness(runtime: Runtime, store: Store): ReadinessOptions {
  let applied = false;
  runtime.onChange(() => {
    const { state } = runtime.status();
    applied ||= state === "running" || state === "failed" || state === "safe";
  });
  return {
    ready() {
      const { state, message } = runtime.status();
      const health = store.health();
      return {
        ready: applied && health.isUsable,
        // Only FlowsService needs the runtime; all services need the store.
        ...(health.isUsable && { notServing: applied ? [] : [FlowsService.typeName] }),
        store: health.isUsable ? "open" : health.message,
        runtime: state,
        ...(message === undefined ? {} : { message }),
      };
    },
    onReadyChange(listener) {
      runtime.onChange(listener);
      store.onHealthChange(listener);
    },
  };
}

function measureStore(store: Store, metrics: StoreMetrics): Store {
  return {
    ...store,
    flows: metrics.measure("flows", store.flows, [
      "commit",
      "find",
      "findEntry",
      "findRepeated",
      "list",
      "prune",
      "reload",
      "update",
    ]),
    tokens: metrics.measure("tokens", store.tokens, [
      "insert",
      "find",
      "get",
      "list",
      "remove",
      "removeExpired",
      "recordUses",
    ]),
    audit: metrics.measure("audit", store.audit, ["append", "list", "verify", "prune"]),
  };
}

/**
 * Protection against foreign web pages is needed for calls that are allowed without a token: those of anonymous clients,
 * and those with a client certificate, which browsers add automatically.
 */
function browserSafety(
  { adminAuth, identity, tls, host, hosts }: Options,
  current: () => AdminAuth | undefined,
): ServerOptions["browserSafety"] {
  const isOpen = (adminAuth ?? identity) === undefined;
  return {
    checksTokens: !isOpen,
    hosts: tls === undefined ? [host, ...hosts] : undefined,
    exposure() {
      if (isOpen || (current()?.default?.permissions ?? []).length > 0) {
        return "anonymous";
      }
      return identity === undefined ? "none" : "workloads";
    },
  };
}

/** Host names are checked only on loopback, against DNS rebinding. On a network, metrics are public anyway. */
function metricsHosts({ metrics: { host }, hosts }: Options): readonly string[] | undefined {
  return isLoopback(host) ? [host, ...hosts] : undefined;
}

/** Access rules of the third-party services. Health is public, since probes have no token. */
function accessToServer(reflection: Options["reflection"]): ReadonlyMap<DescService, AccessRule> {
  const reflectionRule: AccessRule = { kind: reflection === "open" ? "public" : "authenticated" };
  return new Map<DescService, AccessRule>([
    [Health, { kind: "public" }],
    ...reflectionServices.map((service) => [service, reflectionRule] as const),
  ]);
}

/** The version of this package. */
function readVersion(): string {
  const path = findPackageJSON(import.meta.url);
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}
