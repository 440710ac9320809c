import type { Logger } from "pino";
import { deploymentTypeNames } from "@flowgate/flows";
import { isLoopback } from "@flowgate/base/addresses";
import type { HealthMonitor } from "../health/monitor.ts";
import { healthStates } from "../store/health.ts";
import type { Journal } from "../live/journal.ts";
import type { Options } from "../options/parse.ts";
import { type FlowStats, type Runtime, runtimeStates } from "@flowgate/runtime";
import type { Server } from "../server/open-server.ts";
import { sheddingReasons } from "../server/pipeline/guards/load-shedding.ts";
import { connectionEndingLimits } from "../server/http/limit-log.ts";
import type { Certificates } from "../server/http/certificates.ts";
import { type MetricsServer, openMetricsServer } from "../server/endpoints/metrics.ts";
import type { Cluster } from "../store/cluster.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";

/** undefined: they are disabled. */
export async function loadMetrics(version: string, { metrics, tls }: Options): Promise<Metrics | undefined> {
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

type Watched = {
  readonly runtime: Runtime;
  readonly monitor: Pick<HealthMonitor, "health">;
  readonly cluster: Cluster | undefined;
  readonly server: Server;
  readonly journal: Journal;
  readonly certificates: Certificates | undefined;
  readonly stats: FlowStats | undefined;
  readonly options: Pick<Options, "metrics">;
};

/** Adds the metrics that are read when they are queried. */
export function watchWithMetrics(
  metrics: Metrics,
  { runtime, monitor, cluster, server, journal, certificates, stats, options }: Watched,
): void {
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
