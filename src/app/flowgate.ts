import type { Logger } from "pino";
import { type Options, OptionsError, type OptionsInput, parseOptions } from "../options/parse.ts";
import type { RuntimeStatus } from "@flowgate/runtime";
import type { Store } from "../store/store.ts";
import { createLog } from "../telemetry/log.ts";
import type { Authentication } from "./authentication.ts";
import { drain } from "./drain.ts";
import { type Configuration, type Foundation, openFoundation } from "./foundation.ts";
import type { Listeners } from "./listeners.ts";
import { openLive } from "./events.ts";
import { loadMetrics, watchWithMetrics } from "./metrics.ts";
import type { Mount } from "./mounted-api.ts";
import { openServices } from "./open-services.ts";
import { reportThisReplica } from "./report-replica.ts";
import { type Runtimes, openRuntimes } from "./runtimes.ts";
import { createServerOptions } from "./server-options.ts";

/** A running service. Disposing drains it without a delay, stops the flows and closes the store. */
export interface Flowgate extends AsyncDisposable, Mount {
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
  reloadUsers(read: () => FlowgateOptions | Promise<FlowgateOptions>): Promise<void>;
  /**
   * Shuts down like disposing, but keeps accepting calls for `delayMs` before, while health reports not ready. Defaults
   * to `drain.delayMs`.
   */
  drain(delayMs?: number): Promise<void>;
}

/** Partial options, or complete ones from `parseOptions`. docs/configuration.md describes them. */
export type FlowgateOptions = (Omit<OptionsInput, "store"> | Omit<Options, "store">) & {
  /**
   * A URL, as in the configuration; or a store, which stays open when the service is disposed. Flows that are committed
   * directly to this store are served, but not run: deploy through the API.
   */
  readonly store?: string | Store | undefined;
  /**
   * True if the service opens a port, and a Unix socket, of its own. With false, the program serves the API by `routes` or `createHandler`.
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
export async function openFlowgate(partialOptions: FlowgateOptions = {}, customLog?: Logger): Promise<Flowgate> {
  const configuration = readOptions(partialOptions);
  const log = customLog ?? createLog(configuration.options.log);
  await using stack = new AsyncDisposableStack();
  const foundation = await openFoundation({ ...configuration, log }, stack);
  const live = await openLive(foundation, stack);
  const runtimes = await openRuntimes({ ...foundation, live }, stack);
  // Loaded while the runtime process starts, which takes about as long.
  const { openListeners } = await import("./listeners.ts");
  const metrics = await loadMetrics(foundation);
  if (foundation.options.webhooks.targets.length > 0) {
    const { openWebhooks } = await import("./webhooks.ts");
    await openWebhooks({ ...foundation, live, metrics }, stack);
  }
  const services = await openServices({ ...foundation, ...runtimes, live, metrics }, stack);
  const serverOptions = createServerOptions({ ...foundation, ...runtimes, ...services, live, metrics });
  const listeners = await openListeners(
    { ...foundation, ...runtimes, ...services, live, metrics, serverOptions },
    stack,
  );
  reportThisReplica({ ...foundation, ...runtimes, ...listeners, live }, stack);
  watchWithMetrics(metrics, { ...foundation, ...runtimes, ...listeners, live });
  return announce({ ...foundation, ...runtimes, ...services, ...listeners }, stack.move());
}

type OpenParts = Foundation & Runtimes & Pick<Authentication, "users"> & Listeners;

/** Logs the open ports. The service owns the resources from then on. */
function announce(
  { options, listen, log, version, certificates, flowCertificates, runtime, users, ...parts }: OpenParts,
  resources: AsyncDisposableStack,
): Flowgate {
  const { server, mount, tools, metricsServer } = parts;
  const addresses = {
    url: server.url,
    socketPath: server.socketPath,
    consoleUrl: options.console && listen ? `${server.url}/console` : undefined,
    docsUrl: options.docs && listen ? `${server.url}/docs` : undefined,
    metricsUrl: metricsServer?.url,
    nodeRedUrl: tools?.url,
  };
  const shown = Object.entries(addresses).filter(([, address]) => address !== undefined && address !== "");
  log.info({ version, ...Object.fromEntries(shown) }, "started");
  let closed: Promise<void> | undefined;
  const close = async (delayMs: number): Promise<void> => {
    await drain({ ...parts, runtime, log, delayMs, graceMs: options.drain.graceMs });
    await resources.disposeAsync();
  };
  return {
    ...mount,
    ...addresses,
    runtimeStatus: () => runtime.status(),
    async reloadCertificates() {
      await Promise.all([certificates?.reload(), flowCertificates?.reload()]);
    },
    reloadUsers: (read) => users.reload(async () => readOptions(await read()).options),
    drain: (delayMs = options.drain.delayMs) => (closed ??= close(delayMs)),
    [Symbol.asyncDispose]: () => (closed ??= close(0)),
  };
}

/**
 * Separates the options that only a program can set: a store object, for which the schema has only a URL, and `listen`.
 */
function readOptions(input: FlowgateOptions): Omit<Configuration, "log"> {
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  const { listen = true, ...known } = Object(input) as FlowgateOptions;
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
