import { Counter, Histogram, Registry } from "prom-client";
import { processMetrics } from "./process-metrics.ts";
import { deploymentOutcomes, type Observer } from "./observer.ts";
import { createRequestMetrics } from "./requests.ts";
import { registerSamples } from "./series.ts";
import { type StoreMetrics, createStoreMetrics } from "./stores.ts";

type RuntimeReading = {
  readonly state: string;
  readonly restarts: number;
  /** Time since the last heartbeat of the runtime's process. */
  readonly sinceHeartbeatMs: number;
};

/** Everything that is measured of one gateway, in a registry of its own. */
export interface Metrics {
  readonly observer: Observer;
  readonly stores: StoreMetrics;
  /** Read at each scrape. */
  watchRuntime(states: readonly string[], read: () => RuntimeReading): void;
  watchConnections(count: () => Promise<number>): void;
  /** `notAfterMs` is of the certificate in force. */
  watchCertificate(notAfterMs: () => number): void;
  /** All of it, as Prometheus' text. */
  text(): Promise<string>;
}

/** Of `text()`. */
export const metricsContentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** What is counted by; shown from the start, so that the first of each is an increase. */
type Counted = {
  readonly deploymentTypes: readonly string[];
  readonly sheddingReasons: readonly string[];
  readonly limits: readonly string[];
  /** Absent: without TLS. */
  readonly tlsFailures?: readonly string[] | undefined;
};

export function createMetrics(options: Counted & { readonly version: string }): Metrics {
  const registry = new Registry();
  const ofProcess = processMetrics();
  const buildInfo = { version: options.version, node: process.versions.node };
  registerSamples(registry, {
    name: "flowgate_build_info",
    help: "Always 1; its labels tell the version of the service and of Node.",
    type: "gauge",
    values: () => [{ labels: buildInfo, value: 1 }],
  });
  const ofDeployments = { labelNames: ["type", "outcome"], registers: [registry] };
  const deployments = new Counter({
    ...ofDeployments,
    name: "flowgate_deployments_total",
    help: "Deployments, by type and outcome.",
  });
  const durations = new Histogram({
    ...ofDeployments,
    name: "flowgate_deployment_duration_seconds",
    help: "Time from the message of a deployment to its answer: commit, and start in the runtime.",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  });
  const shed = new Counter({
    name: "flowgate_calls_shed_total",
    help: "Calls refused because the service is overloaded, by what it has too little of.",
    labelNames: ["reason"],
    registers: [registry],
  });
  const limited = new Counter({
    name: "flowgate_limits_exceeded_total",
    help: "Connections and calls that were ended because of a limit, by the limit.",
    labelNames: ["limit"],
    registers: [registry],
  });
  const tlsFailures = createTlsFailures(registry, options.tlsFailures);
  for (const type of options.deploymentTypes) {
    for (const outcome of deploymentOutcomes) {
      deployments.inc({ type, outcome }, 0);
    }
  }
  options.sheddingReasons.forEach((reason) => shed.inc({ reason }, 0));
  options.limits.forEach((limit) => limited.inc({ limit }, 0));

  // Those who ask at once get the same: to render it takes a while.
  let text: Promise<string> | undefined;
  const render = async (): Promise<string> => {
    try {
      return `${await registry.metrics()}\n${await ofProcess.metrics()}`;
    } finally {
      text = undefined;
    }
  };

  return {
    observer: {
      ...createRequestMetrics(registry),
      callShed: (reason) => shed.inc({ reason }),
      limitReached: (limit) => limited.inc({ limit }),
      tlsHandshakeFailed: (reason) => tlsFailures?.inc({ reason }),
      deployed(type, outcome, seconds) {
        deployments.inc({ type, outcome });
        durations.observe({ type, outcome }, seconds);
      },
    },
    stores: createStoreMetrics(registry),
    watchRuntime: (states, read) => registerRuntime(registry, states, read),
    watchConnections(count) {
      registerSamples(registry, {
        name: "flowgate_connections",
        help: "Open connections to the port of the API.",
        type: "gauge",
        values: async () => [{ value: await count() }],
      });
    },
    watchCertificate(notAfterMs) {
      registerSamples(registry, {
        name: "flowgate_certificate_not_after_seconds",
        help: "When the certificate in force ends, in Unix time.",
        type: "gauge",
        values: () => [{ value: notAfterMs() / 1000 }],
      });
    },
    text: () => (text ??= render()),
  };
}

function createTlsFailures(registry: Registry, reasons: readonly string[] | undefined): Counter | undefined {
  if (reasons === undefined) {
    return undefined;
  }
  const failures = new Counter({
    name: "flowgate_tls_handshake_failures_total",
    help: "TLS handshakes that failed, by reason.",
    labelNames: ["reason"],
    registers: [registry],
  });
  reasons.forEach((reason) => failures.inc({ reason }, 0));
  return failures;
}

function registerRuntime(registry: Registry, states: readonly string[], read: () => RuntimeReading): void {
  registerSamples(registry, {
    name: "flowgate_runtime_state",
    help: "1 for the state that the flow runtime is in, 0 for the others.",
    type: "gauge",
    values() {
      const now = read().state;
      return states.map((state) => ({ labels: { state }, value: state === now ? 1 : 0 }));
    },
  });
  registerSamples(registry, {
    name: "flowgate_runtime_restarts_total",
    help: "Times that the runtime's process ended unasked, and was replaced.",
    type: "counter",
    values: () => [{ value: read().restarts }],
  });
  registerSamples(registry, {
    name: "flowgate_runtime_heartbeat_age_seconds",
    help: "Time since the runtime's process was last heard; it tells of itself four times a second.",
    type: "gauge",
    values: () => [{ value: read().sinceHeartbeatMs / 1000 }],
  });
}
