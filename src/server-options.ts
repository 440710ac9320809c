import { join } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { AdminAuth } from "./auth/admin-auth.ts";
import { openAnalysis } from "./analysis/analysis.ts";
import { type AuditRecorder, openAuditRecorder } from "./auth/audit-recorder.ts";
import { type Authenticator, createAuthenticator } from "./auth/authenticator.ts";
import { createLimiter } from "./auth/limiter.ts";
import { openTokenCache } from "./auth/token-cache.ts";
import { openTokenUses } from "./auth/token-uses.ts";
import { type AccessRule, identifiedMethods } from "./auth/access.ts";
import { createGate, createPermissionCheck } from "./auth/gate.ts";
import { FlowsService } from "../gen/flowgate/v1/flows_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { createObservedDeployer } from "./deployments/observe.ts";
import type { Probations } from "./deployments/probations.ts";
import type { OutcomeRecorder } from "./deployments/outcome-recorder.ts";
import type { CredentialSets } from "./flows/configuration.ts";
import type { Decrypt } from "./flows/credentials.ts";
import { decryptCredentials } from "./flows/encrypted.ts";
import type { FlowsRequest, PreparedDeployment } from "./flows/prepare.ts";
import { isLoopback } from "./loopback.ts";
import { defaultMemoryMb } from "./memory-limit.ts";
import type { Options } from "./options/parse.ts";
import { openPreparation, type Preparation } from "./preparation/preparation.ts";
import { createReadiness } from "./readiness.ts";
import { createUserReload, type UserReload } from "./reload-users.ts";
import type { Runtime } from "./runtime/runtime.ts";
import type { ServerOptions } from "./server/options.ts";
import type { Certificates } from "./server/listener/certificates.ts";
import { requestKey } from "./server/pipeline/request-context.ts";
import { reflectionServices } from "./server/rpc/reflection.ts";
import { catchUpInterceptor } from "./services/catch-up.ts";
import { auditService } from "./services/audit.ts";
import { authService } from "./services/auth.ts";
import { flowsService } from "./services/flows/service.ts";
import { accessRules, createRoutes, permissions } from "./services/routes.ts";
import { revisionsService } from "./services/revisions/service.ts";
import { runtimeService } from "./services/runtime.ts";
import { settingsService } from "./services/settings.ts";
import { tokensService } from "./services/tokens.ts";
import { openAuditRetention } from "./store/audit-retention.ts";
import type { Store } from "./store/store.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import { silentObserver } from "./telemetry/observer.ts";
import type { StoreMetrics } from "./telemetry/stores.ts";
import type { Tracing } from "./telemetry/tracing.ts";

export type Components = {
  readonly options: Options;
  readonly version: string;
  readonly log: Logger;
  readonly store: Store;
  readonly runtime: Runtime;
  /** The runtimes of all replicas. */
  readonly allRuntimes: Pick<Runtime, "apply">;
  readonly outcomes: OutcomeRecorder;
  readonly probations: Probations;
  readonly tracing: Tracing;
  readonly certificates: Certificates | undefined;
  readonly metrics: Metrics | undefined;
  /** Called when flows exceed their share of the API, or guess passwords. */
  readonly onRuntimeLockOut: (reason: string) => void;
};

/** Connects the services with the store and the runtime. Resources that the server needs are added to the stack. */
export function openServerOptions(
  {
    options,
    version,
    log,
    store: plainStore,
    runtime,
    allRuntimes,
    outcomes,
    probations,
    tracing,
    certificates,
    metrics,
    onRuntimeLockOut,
  }: Components,
  stack: AsyncDisposableStack,
): { serverOptions: ServerOptions; users: UserReload } {
  const observer = metrics?.observer ?? silentObserver;
  const store = metrics === undefined ? plainStore : measureStore(plainStore, metrics.stores);
  const { audit, authenticator, users } = openAuthentication({ options, log, store, onRuntimeLockOut }, stack);
  const decrypt: Decrypt = (encrypted) => decryptCredentials(options.credentialSecret, encrypted);
  const memoryMb = options.limits.memoryMb ?? defaultMemoryMb();
  const analysis = stack.use(openAnalysis(log, memoryMb));
  const deployer = createObservedDeployer({
    store: store.flows,
    audit: store.audit,
    analysis,
    runtime: allRuntimes,
    probations,
    log,
    observer,
  });
  const preparation = stack.use(
    openPreparation({ credentialSecret: options.credentialSecret, decrypt, log, memoryMb }),
  );
  const serverOptions: ServerOptions = {
    host: options.host,
    port: options.port,
    socket: socketOptions(options),
    log,
    gate: createGate(authenticator, accessRules, audit, accessToServer(options.reflection)),
    identified: identifiedMethods(accessRules),
    runtimeProcess: { processId: () => runtime.processId(), hasChildren: options.runtime.allow.childProcess },
    onRuntimeLockOut,
    interceptors: store.cluster === undefined ? [] : [catchUpInterceptor(store)],
    deferred: [FlowsService.method.setFlows, FlowsService.method.planFlows],
    routes: createRoutes({
      auth: authService(authenticator),
      flows: flowsService({
        store: store.flows,
        deployer,
        prepare: (request, current, context) => prepareReserved(preparation, request, current, context),
        decrypt,
        analysis,
        runtime,
      }),
      revisions: revisionsService({ store: store.flows, deployer, outcomes, analysis }),
      runtime: runtimeService({ store: store.flows, audit, runtime, cluster: store.cluster }),
      settings: settingsService({ version, runtime, cluster: store.cluster }),
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
    limits: { ...options.limits, memoryMb },
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

function socketOptions({ socket, dataDir }: Options): ServerOptions["socket"] {
  // Node has no Unix sockets on Windows.
  if (socket === false || (socket === undefined && process.platform === "win32")) {
    return undefined;
  }
  return { path: socket ?? join(dataDir, "flowgate.sock"), isRequired: socket !== undefined };
}

/** Authentication, and the recording of its events. */
function openAuthentication(
  { options, log, store, onRuntimeLockOut }: Pick<Components, "options" | "log" | "store" | "onRuntimeLockOut">,
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
    limiter: createLimiter(store.logins, (locked, client, kind) => {
      log.info({ locked, client, kind }, "too many failed logins: this user or client is locked out temporarily");
      if (kind === "runtime") {
        onRuntimeLockOut("flows have tried too many passwords");
      }
    }),
    identities: options.identity?.rules,
  });
  const replace = (adminAuth: AdminAuth): void => authenticator.replaceAdminAuth(adminAuth);
  return { audit, authenticator, users: createUserReload({ options, replace, audit, log }) };
}

/** Holds the memory of the request until its flows are decoded, also if its client disconnects before. */
async function prepareReserved(
  preparation: Preparation,
  request: FlowsRequest,
  current: CredentialSets,
  { values }: HandlerContext,
): Promise<PreparedDeployment> {
  const memory = values.get(requestKey)?.memory;
  const release = memory?.retain();
  try {
    const prepared = await preparation.prepare(request, current);
    const { outcome } = prepared;
    memory?.decoded(outcome === undefined || outcome instanceof Error ? 0 : outcome.flows.json.length);
    return prepared;
  } finally {
    release?.();
  }
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
export function metricsHosts({ metrics: { host }, hosts }: Options): readonly string[] | undefined {
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
