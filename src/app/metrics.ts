import type { Logger } from "pino";
import { deploymentTypeNames } from "@flowgate/flows";
import { isLoopback } from "@flowgate/base/addresses";
import { healthStates } from "../store/health.ts";
import type { Options } from "../options/parse.ts";
import { runtimeStates } from "@flowgate/runtime";
import type { Server } from "../server/open-server.ts";
import { sheddingReasons } from "../server/pipeline/guards/load-shedding.ts";
import { connectionEndingLimits } from "../server/http/limit-log.ts";
import { type MetricsServer, openMetricsServer } from "../server/endpoints/metrics.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import type { Foundation } from "./foundation.ts";
import type { Live } from "./events.ts";
import type { Runtimes } from "./runtimes.ts";

/** undefined: they are disabled. */
export async function loadMetrics({
  version,
  options: { metrics, tls },
}: Pick<Foundation, "version" | "options">): Promise<Metrics | undefined> {
  if (!metrics.enabled) {
    return undefined;
  }
  return createMetrics({
    version,
    deploymentTypes: deploymentTypeNames,
    sheddingReasons,
    limits: connectionEndingLimits,
    tlsFailures: tls && (await import("../server/http/tls.ts")).tlsFailures,
  });
}

type Watched = Pick<Foundation, "options" | "store" | "certificates" | "stats"> &
  Pick<Runtimes, "runtime" | "monitor"> & { readonly server: Server; readonly live: Pick<Live, "journal"> };

/** Adds the metrics that are read when they are queried. */
export function watchWithMetrics(
  metrics: Metrics | undefined,
  { options, store: { cluster }, certificates, stats, runtime, monitor, server, live: { journal } }: Watched,
): void {
  if (metrics === undefined) {
    return;
  }
  metrics.watchReplicas(runtimeStates, () => cluster?.replicas().map(({ state }) => state) ?? [runtime.status().state]);
  metrics.watchRuntime(runtimeStates, () => ({ ...runtime.processStats(), state: runtime.status().state }));
  metrics.watchHealth(healthStates, () => monitor.health().state);
  metrics.watchConnections(() => server.connections());
  metrics.watchJournal(() => journal.dropped());
  if (stats !== undefined) {
    metrics.watchFlows(stats, options.metrics.nodes);
  }
  if (certificates !== undefined) {
    metrics.watchCertificate(() => certificates.notAfterMs());
  }
}

/** Serves the metrics on a port of their own, if there is one. */
export async function openMetricsPort(
  metrics: Metrics | undefined,
  { metrics: { host, port }, hosts }: Options,
  log: Logger,
): Promise<MetricsServer | undefined> {
  if (metrics === undefined || port === undefined) {
    return undefined;
  }
  // Host names are checked only on loopback, against DNS rebinding. On a network, metrics are public anyway.
  return openMetricsServer({ host, port, metrics, log, hosts: isLoopback(host) ? [host, ...hosts] : undefined });
}
