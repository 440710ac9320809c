import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import type { DescService } from "@bufbuild/protobuf";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Logger } from "pino";
import { createAuthenticator } from "./auth/authenticator.ts";
import { openTokenCache } from "./auth/token-cache.ts";
import type { AccessRule } from "./auth/access.ts";
import { createGate, createPermissionCheck } from "./auth/gate.ts";
import { FlowsService } from "../gen/flowgate/v1/flows_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { drain } from "./drain.ts";
import type { Decrypt } from "./flows/credentials.ts";
import { deploymentTypeNames } from "./flows/deployment-type.ts";
import { decryptCredentials } from "./flows/encrypted.ts";
import { isLoopback } from "./options/loopback.ts";
import { type Options, type OptionsInput, parseOptions } from "./options/parse.ts";
import { openPreparation } from "./preparation/preparation.ts";
import { followRevisions } from "./runtime/follow-revisions.ts";
import { openRuntime } from "./runtime/supervisor.ts";
import type { RuntimeOptions } from "./runtime/options.ts";
import { type Runtime, runtimeStates, type RuntimeStatus } from "./runtime/runtime.ts";
import type { ServerOptions } from "./server/app.ts";
import type { ReadinessSource } from "./server/health.ts";
import { openCertificates } from "./server/listener/certificates.ts";
import type { openMetricsServer } from "./server/metrics-endpoint.ts";
import { connectionEndingLimits } from "./server/limit-log.ts";
import { sheddingReasons } from "./server/guards/load-shedding.ts";
import { createLog } from "./server/log.ts";
import { reflectionServices } from "./server/rpc/reflection.ts";
import { tlsFailures } from "./server/listener/tls.ts";
import { authService } from "./services/auth.ts";
import { flowsService } from "./services/flows/service.ts";
import { createRoutes, permissions, services } from "./services/routes.ts";
import { settingsService } from "./services/settings.ts";
import { lockDataDir } from "./store/lock.ts";
import { openStore } from "./store/open-store.ts";
import type { Store } from "./store/store.ts";
import { silentObserver } from "./telemetry/observer.ts";
import type { StoreMetrics } from "./telemetry/stores.ts";
import { readTraceparent, traceIds } from "./telemetry/trace.ts";
import { openTracing } from "./telemetry/tracing.ts";

/** A running service. Disposing drains it without a delay, stops the flows and closes the store. */
export interface Gateway extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  /** The page that describes the API, if `docs` is set. */
  readonly docsUrl: string | undefined;
  /** Where the metrics are, if they have a port of their own. */
  readonly metricsUrl: string | undefined;
  runtimeStatus(): RuntimeStatus;
  /** Reads the files of `tls`, if it is set, now rather than when it sees that they have changed. The log tells how. */
  reloadCertificates(): Promise<void>;
  /**
   * Ends it as disposing does, but takes calls for `delayMs` more before, while its health says that it leaves.
   * Default: `drain.delayMs`.
   */
  drain(delayMs?: number): Promise<void>;
}

/** Each is optional, and complete options as of `parseOptions` will do. docs/configuration.md describes them. */
export type GatewayOptions = (Omit<OptionsInput, "store"> | Omit<Options, "store">) & {
  /**
   * A URL, as in the configuration; or a store, which stays open when the gateway is disposed. Flows that are committed
   * through that object directly are served, but not run: deploy through the gateway.
   */
  readonly store?: string | Store | undefined;
};

/**
 * Opens the store, starts the runtime and listens, in this order; what was opened is closed again where
 * a later step fails. It resolves once it listens: the flows may still be starting (`GET /readyz` tells).
 *
 * Rejects with an OptionsError that names each option that is unknown or wrong. `givenLog` replaces the log of `log.level`
 * on stdout.
 */
export async function openGateway(given: GatewayOptions = {}, givenLog?: Logger): Promise<Gateway> {
  const { options, givenStore } = readOptions(given);
  const log = givenLog ?? createLog(options.log);
  await using stack = new AsyncDisposableStack();
  const certificates = options.tls && stack.use(await openCertificates(options.tls, log));
  stack.use(lockDataDir(options.dataDir));
  const version = readVersion();
  const tracing = stack.use(await openTracing(options.tracing, { version, log }));
  const opened = givenStore ?? stack.use(await openStore(options));
  const runtime = stack.use(
    openRuntime({
      ...options.runtime,
      active: async () => opened.flows.active(),
      log: createRuntimeLog(log),
      logLevel: options.log.level === "silent" ? "fatal" : options.log.level,
    }),
  );
  stack.use(followRevisions(opened.flows, runtime));
  // Loaded while the flow runtime's process starts, which takes as long.
  const { openServer } = await import("./server/app.ts");
  const { createMetrics } = await import("./telemetry/metrics.ts");
  const metrics = options.metrics.enabled
    ? createMetrics({
        version,
        deploymentTypes: deploymentTypeNames,
        sheddingReasons,
        limits: connectionEndingLimits,
        tlsFailures: options.tls && tlsFailures,
      })
    : undefined;
  const observer = metrics?.observer ?? silentObserver;
  const store = metrics === undefined ? opened : measureStore(opened, metrics.stores);
  const authenticator = createAuthenticator({
    adminAuth: options.adminAuth,
    tokens: stack.use(openTokenCache(store.tokens)),
    permissions,
    onLockOut: (locked, client) =>
      log.info({ locked, client }, "too many failed logins: for a while no more are tried, for this user or client"),
    identities: options.identity?.rules,
  });
  const decrypt: Decrypt = (encrypted) => decryptCredentials(options.credentialSecret, encrypted);
  const preparation = stack.use(openPreparation({ credentialSecret: options.credentialSecret, decrypt, log }));
  const server = stack.use(
    await openServer({
      host: options.host,
      port: options.port,
      log,
      gate: createGate(authenticator, services, accessToServer(options.reflection)),
      interceptors: [],
      deferred: [FlowsService.method.setFlows],
      routes: createRoutes({
        auth: authService(authenticator),
        flows: flowsService({
          store: store.flows,
          runtime,
          prepare: (request, current) => preparation.prepare(request, current),
          decrypt,
          log,
          observer,
        }),
        settings: settingsService(version, runtime),
      }),
      ...createReadiness(runtime, store),
      listener: {
        closeGraceMs: options.drain.graceMs,
        onCut: (connections) => log.warn({ connections }, "draining: connections were cut off with calls in flight"),
      },
      docs: options.docs,
      reflection: options.reflection !== "off",
      limits: options.limits,
      observer,
      tracing,
      metrics:
        metrics && options.metrics.port === undefined
          ? { metrics, checkPermission: createPermissionCheck(authenticator, "metrics.read") }
          : undefined,
      browserSafety: browserSafety(options),
      cors: options.cors,
      tls: options.tls && certificates && { certificates, clientCertificate: options.tls.clientCertificate },
      trustedProxies: options.trustedProxies,
      identity: options.identity?.source,
    }),
  );
  metrics?.watchRuntime(runtimeStates, () => ({ ...runtime.processStats(), state: runtime.status().state }));
  metrics?.watchConnections(() => server.connections());
  if (certificates !== undefined) {
    metrics?.watchCertificate(() => certificates.notAfterMs());
  }
  const { host, port } = options.metrics;
  const metricsServer =
    metrics && port !== undefined
      ? stack.use(await openMetricsPort({ host, port, metrics, log, hosts: metricsHosts(options) }))
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
  const all = stack.move();
  let ended: Promise<void> | undefined;
  const end = async (delayMs: number): Promise<void> => {
    await drain({ server, runtime, log, delayMs, graceMs: options.drain.graceMs });
    await all.disposeAsync();
  };
  return {
    url: server.url,
    docsUrl,
    metricsUrl,
    runtimeStatus: () => runtime.status(),
    async reloadCertificates() {
      if (certificates === undefined) {
        log.info("nothing to reload: tls is not set, and other options are read at the start");
      }
      await certificates?.reload();
    },
    drain: (delayMs = options.drain.delayMs) => (ended ??= end(delayMs)),
    [Symbol.asyncDispose]: () => (ended ??= end(0)),
  };
}

/** A store is no value of the options' schema, which has its URL alone. */
function readOptions(given: GatewayOptions): { options: Options; givenStore: Store | undefined } {
  const { store, ...others } = Object(given) as GatewayOptions;
  return isStore(store)
    ? { options: parseOptions(others), givenStore: store }
    : { options: parseOptions(given as OptionsInput), givenStore: undefined };
}

function isStore(value: unknown): value is Store {
  return typeof value === "object" && value !== null && "flows" in value && "tokens" in value;
}

type OpenMetricsServer = typeof openMetricsServer;

/** Loaded only if metrics have a port of their own. */
async function openMetricsPort(options: Parameters<OpenMetricsServer>[0]): ReturnType<OpenMetricsServer> {
  const endpoint = await import("./server/metrics-endpoint.ts");
  return await endpoint.openMetricsServer(options);
}

/** What the flows say stands in the service's log, marked as theirs: they can say anything. */
function createRuntimeLog(log: Logger): RuntimeOptions["log"] {
  const logs = { runtime: log.child({ source: "runtime" }), flows: log.child({ source: "flows" }) };
  return ({ level, message, traceparent, ...fields }, source) =>
    logs[source][level]({ ...fields, ...traceIds(readTraceparent(ROOT_CONTEXT, traceparent)) }, message);
}

/**
 * Ready once the runtime has dealt with the flows that it found: runs them, or has said why it can't.
 * And from then on, for a service whose flows break must be reachable for the deployment that mends them.
 */
function createReadiness(runtime: Runtime, store: Store): ReadinessSource {
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
        // The others do all their work without the runtime, but not without the store.
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
    flows: metrics.measure("flows", store.flows, ["commit", "find", "list", "reload"]),
    tokens: metrics.measure("tokens", store.tokens, ["insert", "find", "remove", "removeExpired"]),
  };
}

/**
 * What a page in someone's browser could abuse: what is allowed to whoever reaches the port, and to whoever has a
 * client certificate, which browsers add by themselves. Where all need a token there is nothing.
 */
function browserSafety({ adminAuth, identity, tls, host, hosts }: Options): ServerOptions["browserSafety"] {
  const isOpen = (adminAuth ?? identity) === undefined;
  const toAnyone = isOpen || (adminAuth?.default?.permissions ?? []).length > 0;
  if (!toAnyone && identity === undefined) {
    return undefined;
  }
  return { checksTokens: !isOpen, hosts: toAnyone && tls === undefined ? [host, ...hosts] : undefined };
}

/** A page could have its own name lead to loopback; on a network, metrics are for whoever reaches them by any name. */
function metricsHosts({ metrics: { host }, hosts }: Options): readonly string[] | undefined {
  return isLoopback(host) ? [host, ...hosts] : undefined;
}

/** Who may call the services that the server adds: health is for probes, which have no token. */
function accessToServer(reflection: Options["reflection"]): ReadonlyMap<DescService, AccessRule> {
  const toReflection: AccessRule = { kind: reflection === "open" ? "public" : "authenticated" };
  return new Map<DescService, AccessRule>([
    [Health, { kind: "public" }],
    ...reflectionServices.map((service) => [service, toReflection] as const),
  ]);
}

/** This package's own version. */
function readVersion(): string {
  const path = findPackageJSON(import.meta.url);
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}
