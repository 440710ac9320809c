import { Approvals } from "../auth/approvals.ts";
import { OpenCalls } from "../auth/open-calls.ts";
import { Deployer } from "../deployments/deployer.ts";
import { Quarantine } from "../deployments/quarantine.ts";
import type { Decrypt } from "@flowgate/flows";
import { decryptCredentials } from "@flowgate/flows/encrypted";
import { openPreparation } from "../deployments/preparation/preparation.ts";
import { publishTokens } from "../events/token-events.ts";
import type { ServerOptions } from "../server/server-options.ts";
import { type Implementations, createRoutes } from "../services/api.ts";
import { auditService } from "../services/audit.ts";
import { authService } from "../services/auth.ts";
import { contextService } from "../services/context.ts";
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
import { type Authentication, openAuthentication } from "./authentication.ts";
import { type Foundation, threadLimits } from "./foundation.ts";
import type { Live } from "./events.ts";
import { wrapStore } from "../store/guard.ts";
import type { Runtimes } from "./runtimes.ts";

/** The routes and the authentication of their callers. */
export type Services = Authentication &
  Pick<ServerOptions, "routes"> & {
    readonly implementations: Implementations;
    /** Measures its operations, and publishes changes of tokens. */
    readonly store: Store;
    readonly observer: Observer;
  };

type ServicesOptions = Foundation & Runtimes & { readonly live: Live; readonly metrics: Metrics | undefined };

/** Opens the authentication and the services. Their resources are added to the stack. */
export async function openServices(parts: ServicesOptions, stack: AsyncDisposableStack): Promise<Services> {
  const { live, metrics } = parts;
  const observer = metrics?.observer ?? silentObserver;
  const measured = metrics === undefined ? parts.store : wrapStore(parts.store, metrics.stores.measure);
  const store = { ...measured, tokens: publishTokens(measured.tokens, live.hub) };
  const onUsersReload: Parameters<typeof openAuthentication>[0]["onUsersReload"] = (action, detail) =>
    void live.hub.publish({ kind: { case: "users", value: { action, detail } } });
  const authentication = await openAuthentication({ ...parts, store, onUsersReload }, stack);
  const implementations = openImplementations({ ...parts, ...authentication, store, observer }, stack);
  return { ...authentication, store, observer, implementations, routes: createRoutes(implementations) };
}

type RoutesOptions = ServicesOptions & Authentication & { readonly observer: Observer };

/** The services, with the worker threads that they use. */
function openImplementations(
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
  }: RoutesOptions,
  stack: AsyncDisposableStack,
): Implementations {
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
  const { quarantine } = options.runtime;
  if (quarantine !== "off") {
    stack.use(new Quarantine({ scope: quarantine, store: flows, runtime, deployer, log }));
  }
  const preparation = stack.use(openPreparation({ secrets, log, ...threadLimits(options) }));
  const { required, expiryDays, maxOpen, maxOpenPerUser } = options.approvals;
  const approvals = new Approvals(required);
  const deploying = { store: flows, deployer, preparation, decrypt, analysis, modules, runtime, monitor };
  return {
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
  };
}
