import { findPackageJSON } from "node:module";
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { Approvals } from "../auth/approvals.ts";
import { createGate, createPermissionCheck } from "../auth/gate.ts";
import { OpenCalls } from "../auth/open-calls.ts";
import { identifiedMethods } from "../auth/permissions.ts";
import { Deployer } from "../deployments/deployer.ts";
import { Quarantine } from "../deployments/quarantine.ts";
import type { Analysis, AnalysisOptions } from "../deployments/analysis/analysis.ts";
import type { Decrypt } from "@flowgate/flows";
import { decryptCredentials } from "@flowgate/flows/encrypted";
import { openPreparation } from "../deployments/preparation/preparation.ts";
import { flowMethods, preparedMethods } from "../deployments/preparation/prepare-deployment.ts";
import { publishTokens } from "../live/token-events.ts";
import type { Options } from "../options/parse.ts";
import { readIsolation } from "../options/runtime.ts";
import type { ProtectedPorts, FlowStats, Runtime, RuntimeState } from "@flowgate/runtime";
import type { ReadinessOptions } from "../server/endpoints/health.ts";
import type { Certificates } from "../server/http/certificates.ts";
import type { ServerOptions } from "../server/open-server.ts";
import { accessRules, createRoutes } from "../services/api.ts";
import { auditService } from "../services/audit.ts";
import { authService } from "../services/auth.ts";
import { contextService } from "../services/context.ts";
import { catchUpInterceptor } from "../services/catch-up.ts";
import { eventsService } from "../services/events.ts";
import { flowsService } from "../services/flows.ts";
import { modulesService } from "../services/modules.ts";
import { proposalsService } from "../services/proposals.ts";
import { libraryService } from "../services/library.ts";
import { logsService } from "../services/logs.ts";
import { revisionsService } from "../services/revisions.ts";
import { runtimeService } from "../services/runtime.ts";
import { settingsService } from "../services/settings.ts";
import { tokensService } from "../services/tokens.ts";
import type { Store } from "../store/store.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type Observer, silentObserver } from "../telemetry/observer.ts";
import { OwnUsage, readDiskSpace } from "../telemetry/own-usage.ts";
import type { Tracing } from "../telemetry/trace.ts";
import {
  type Authentication,
  type AuthenticationOptions,
  accessToServer,
  browserSafety,
  openAuthentication,
} from "./authentication.ts";
import type { Live } from "./live.ts";
import { wrapStore } from "../store/guard.ts";
import type { Runtimes } from "./runtimes.ts";

/** Where `npm run build:console` puts the web console. */
const consoleDir = join(dirname(findPackageJSON(import.meta.url) ?? "."), "dist/console");

export type Components = Runtimes & {
  readonly options: Options;
  readonly version: string;
  readonly log: Logger;
  readonly store: Store;
  readonly live: Live;
  readonly analysis: Analysis;
  /** Undefined without metrics. */
  readonly stats: FlowStats | undefined;
  readonly tracing: Tracing;
  readonly certificates: Certificates | undefined;
  readonly metrics: Metrics | undefined;
  readonly protectedPorts: ProtectedPorts;
  /** The port of Node-RED's tools; undefined until it is open, and if there is none. */
  readonly toolsPort: () => number | undefined;
};

/** Opens the services, and connects them with the store and the runtime. Their resources are added to the stack. */
export async function openServices(
  components: Components,
  stack: AsyncDisposableStack,
): Promise<{ serverOptions: ServerOptions } & Authentication> {
  const { options, log, runtime, live, metrics, certificates } = components;
  const observer = metrics?.observer ?? silentObserver;
  const measured = metrics === undefined ? components.store : wrapStore(components.store, metrics.stores.measure);
  const store = { ...measured, tokens: publishTokens(measured.tokens, live.hub) };
  const onUsersReload: AuthenticationOptions["onUsersReload"] = (action, detail) =>
    void live.hub.publish({ kind: { case: "users", value: { action, detail } } });
  const authentication = await openAuthentication({ ...components, store, onUsersReload }, stack);
  const { audit, authenticator, signIn, users } = authentication;
  const serverOptions: ServerOptions = {
    host: options.host,
    port: options.port,
    socket: socketOptions(options),
    log,
    gate: createGate(authenticator, accessRules, audit, accessToServer(options.reflection), live.replicas?.findReplica),
    identified: identifiedMethods(accessRules),
    interceptors: store.cluster === undefined ? [] : [catchUpInterceptor(store)],
    deferred: [...preparedMethods, ...flowMethods],
    routes: openRoutes({ ...components, ...authentication, store, observer }, stack),
    ...createReadiness(runtime, store),
    listener: {
      closeGraceMs: options.drain.graceMs,
      onForcedClose: (connections) =>
        log.warn({ connections }, "draining: connections were closed with calls in flight"),
    },
    console: options.console ? consoleDir : undefined,
    docs: options.docs,
    signIn,
    reflection: options.reflection !== "off",
    limits: options.limits,
    observer,
    tracing: components.tracing,
    metrics:
      metrics && options.metrics.port === undefined
        ? { metrics, checkPermission: createPermissionCheck(authenticator, "metrics.read", audit) }
        : undefined,
    browserSafety: { ...browserSafety(options, () => users.adminAuth()), toolsPort: components.toolsPort },
    cors: options.cors,
    tls: options.tls && certificates && { certificates, clientCertificate: options.tls.clientCertificate },
    trustedProxies: options.trustedProxies,
    identity: options.identity?.source,
  };
  return { serverOptions, ...authentication };
}

type ServiceComponents = Components & Authentication & { readonly observer: Observer };

/** The services, with the worker threads that they use. */
function openRoutes(
  {
    options,
    version,
    log,
    store,
    runtime,
    live,
    analysis,
    allRuntimes,
    outcomes,
    probations,
    modules,
    moduleSets,
    stats,
    monitor,
    ...others
  }: ServiceComponents,
  stack: AsyncDisposableStack,
): ServerOptions["routes"] {
  const { audit, authenticator, observer } = others;
  const secrets = (): readonly string[] => {
    const { credentialSecret, previousCredentialSecrets } = others.users.secrets();
    return [...(credentialSecret === undefined ? [] : [credentialSecret]), ...previousCredentialSecrets];
  };
  const decrypt: Decrypt = (encrypted, findTypes) => decryptCredentials(secrets(), encrypted, findTypes);
  const { flows, cluster, desired } = store;
  const deployer = new Deployer({
    store: flows,
    audit: store.audit,
    analysis,
    modules: moduleSets,
    runtime: allRuntimes,
    probations,
    log,
    observer,
  });
  const { quarantine } = readIsolation(options.runtime);
  if (quarantine !== "off") {
    stack.use(new Quarantine({ scope: quarantine, store: flows, runtime, deployer, log }));
  }
  const preparation = stack.use(openPreparation({ secrets, log, ...threadLimits(options) }));
  const { required, expiryDays, maxOpen, maxOpenPerUser } = options.approvals;
  const approvals = new Approvals(required);
  const deploying = { store: flows, deployer, preparation, decrypt, analysis, modules, runtime, monitor };
  return createRoutes({
    auth: authService(authenticator),
    flows: flowsService({ ...deploying, approvals }),
    proposals: proposalsService({
      ...deploying,
      proposals: store.proposals,
      publish: (event) => void live.hub.publish(event),
      lifetimeMs: expiryDays * 86_400_000,
      limits: { perUser: maxOpenPerUser, total: maxOpen },
    }),
    revisions: revisionsService({
      store: flows,
      moduleStore: store.modules,
      modules,
      deployer,
      approvals,
      outcomes,
      analysis,
      maxPinned: options.history.maxRevisions,
    }),
    context: contextService({ desired, audit, runtime, cluster }),
    modules: modulesService({ store: flows, modules, sets: moduleSets, audit, runtime, cluster }),
    library: libraryService(store.documents),
    runtime: runtimeService({
      store: flows,
      desired,
      audit,
      runtime,
      allRuntimes,
      outcomes,
      cluster,
      nodes: live.flows.nodes,
      stats,
      usage: stack.use(new OwnUsage()),
      disk: () => readDiskSpace(options.dataDir),
      monitor,
    }),
    settings: settingsService({ version, runtime, authenticator, cluster }),
    tokens: tokensService(authenticator, store.tokens),
    audit: auditService(store.audit),
    events: eventsService({ ...live, audit, calls: stack.use(new OpenCalls({ authenticator, tokens: store.tokens })) }),
    logs: logsService(live.journal),
    replicas: live.replicas?.service,
  });
}

/** What the threads that work with flows may take. */
export function threadLimits({ limits }: Options): Omit<AnalysisOptions, "log"> {
  const { analysisMs, deploymentAnalysisMs, memoryMb } = limits;
  return {
    memoryMb,
    readLimit: { maxMs: analysisMs, option: "limits.analysisMs" },
    deploymentLimit: { maxMs: deploymentAnalysisMs, option: "limits.deploymentAnalysisMs" },
  };
}

function socketOptions({ socket, dataDir }: Options): ServerOptions["socket"] {
  // Node has no Unix sockets on Windows.
  if (socket === false || (socket === undefined && process.platform === "win32")) {
    return undefined;
  }
  return { path: socket ?? join(dataDir, "flowgate.sock"), isRequired: socket !== undefined };
}

const settledStates: ReadonlySet<RuntimeState> = new Set(["running", "failed", "safe", "standby", "disabled"]);

/**
 * Ready once the runtime has started the stored flows, has failed to, or has none to start in this replica; or the flows are to be
 * stopped. It stays ready when flows fail later, since the service must be reachable for the deployment that fixes them.
 */
function createReadiness(runtime: Runtime, store: Store): ReadinessOptions {
  let applied = false;
  const observe = (): void => {
    applied ||= !store.desired.current().isStarted || settledStates.has(runtime.status().state);
  };
  observe();
  runtime.onChange(observe);
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
