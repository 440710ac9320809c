import type { Logger } from "pino";
import { deploymentTypeNames } from "../flows/configuration.ts";
import { isLoopback } from "../base/addresses.ts";
import type { Journal } from "../live/journal.ts";
import type { Options } from "../options/parse.ts";
import type { FlowStats } from "../runtime/flow-stats.ts";
import { type Runtime, runtimeStates } from "../runtime/runtime.ts";
import type { Server } from "../server/open-server.ts";
import { sheddingReasons } from "../server/pipeline/guards/load-shedding.ts";
import { connectionEndingLimits } from "../server/http/limit-log.ts";
import type { Certificates } from "../server/http/certificates.ts";
import { tlsFailures } from "../server/http/tls.ts";
import type { MetricsServer } from "../server/endpoints/metrics.ts";
import type { Cluster } from "../store/cluster.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** Loads the metrics only if they are enabled. */
export async function loadMetrics(version: string, { metrics, tls }: Options): Promise<Metrics | undefined> {
  if (!metrics.enabled) {
    return undefined;
  }
  const { createMetrics } = await import("../telemetry/metrics.ts");
  return createMetrics({
    version,
    deploymentTypes: deploymentTypeNames,
    sheddingReasons,
    limits: connectionEndingLimits,
    tlsFailures: tls && tlsFailures,
  });
}

type Watched = {
  readonly runtime: Runtime;
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
  { runtime, cluster, server, journal, certificates, stats, options }: Watched,
): void {
  metrics.watchReplicas(runtimeStates, () => cluster?.replicas().map(({ state }) => state) ?? [runtime.status().state]);
  metrics.watchRuntime(runtimeStates, () => ({ ...runtime.processStats(), state: runtime.status().state }));
  metrics.watchConnections(() => server.connections());
  metrics.watchJournal(() => journal.dropped());
  if (stats !== undefined) {
    metrics.watchFlows(stats, options.metrics.nodes);
  }
  if (certificates !== undefined) {
    metrics.watchCertificate(() => certificates.notAfterMs());
  }
}

/** Serves the metrics on a port of their own, if there is one. The module is loaded only then. */
export async function openMetricsPort(
  metrics: Metrics | undefined,
  { metrics: { host, port }, hosts }: Options,
  log: Logger,
): Promise<MetricsServer | undefined> {
  if (metrics === undefined || port === undefined) {
    return undefined;
  }
  const { openMetricsServer } = await import("../server/endpoints/metrics.ts");
  // Host names are checked only on loopback, against DNS rebinding. On a network, metrics are public anyway.
  return openMetricsServer({ host, port, metrics, log, hosts: isLoopback(host) ? [host, ...hosts] : undefined });
}
