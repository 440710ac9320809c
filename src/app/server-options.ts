import { findPackageJSON } from "node:module";
import { dirname, join } from "node:path";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { createGate, createPermissionCheck } from "../auth/gate.ts";
import { identifiedMethods } from "../auth/permissions.ts";
import { flowMethods, preparedMethods } from "../deployments/preparation/prepare-deployment.ts";
import type { Options } from "../options/parse.ts";
import type { RuntimeState } from "@flowgate/runtime";
import type { ReadinessOptions } from "../server/endpoints/health.ts";
import type {
  ApiOptions,
  ClientOptions,
  ListeningOptions,
  MeasurementOptions,
  PagesOptions,
  ServerOptions,
} from "../server/server-options.ts";
import { accessRules } from "../services/api.ts";
import { catchUpInterceptor } from "../services/catch-up.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { accessToServer, browserSafety } from "./authentication.ts";
import type { Foundation } from "./foundation.ts";
import type { Live } from "./events.ts";
import type { Services } from "./open-services.ts";
import type { Runtimes } from "./runtimes.ts";

/** The output folder of `npm run build:console`. */
const consoleDir = join(dirname(findPackageJSON(import.meta.url) ?? "."), "dist/console");

type ServerParts = Foundation &
  Pick<Runtimes, "runtime"> &
  Services & { readonly live: Live; readonly metrics: Metrics | undefined };

/** Creates the server's options for these services, by subject. */
export function createServerOptions(parts: ServerParts): ServerOptions {
  return {
    ...listening(parts),
    ...api(parts),
    ...pages(parts),
    ...clients(parts),
    ...measurements(parts),
    ...readiness(parts),
  };
}

function listening({ options, certificates, log }: ServerParts): ListeningOptions {
  const { host, port, limits, drain, tls } = options;
  return {
    host,
    port,
    socket: socketOptions(options),
    limits,
    tls: tls && certificates && { certificates, clientCertificate: tls.clientCertificate },
    listener: {
      closeGraceMs: drain.graceMs,
      onForcedClose: (connections) =>
        log.warn({ connections }, "draining: connections were closed with calls in flight"),
    },
  };
}

function api({ options, store, live, authenticator, audit, routes }: ServerParts): ApiOptions {
  return {
    routes,
    gate: createGate(authenticator, accessRules, audit, accessToServer(options.reflection), live.replicas?.findReplica),
    identified: identifiedMethods(accessRules),
    interceptors: store.cluster === undefined ? [] : [catchUpInterceptor(store)],
    deferred: [...preparedMethods, ...flowMethods],
    reflection: options.reflection !== "off",
  };
}

function pages({ options, signIn }: ServerParts): PagesOptions {
  return { console: options.console ? consoleDir : undefined, docs: options.docs, signIn };
}

function clients({ options, users, ports }: ServerParts): ClientOptions {
  return {
    browserSafety: { ...browserSafety(options, () => users.adminAuth()), toolsPort: () => ports.of("tools") },
    cors: options.cors,
    trustedProxies: options.trustedProxies,
    identity: options.identity?.source,
  };
}

function measurements({
  options,
  log,
  observer,
  tracing,
  metrics,
  authenticator,
  audit,
}: ServerParts): MeasurementOptions {
  return {
    log,
    observer,
    tracing,
    metrics:
      metrics && options.metrics.port === undefined
        ? { metrics, checkPermission: createPermissionCheck(authenticator, "metrics.read", audit) }
        : undefined,
  };
}

function socketOptions({ socket, dataDir }: Options): ListeningOptions["socket"] {
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
function readiness({ runtime, store }: Pick<ServerParts, "runtime" | "store">): ReadinessOptions {
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
