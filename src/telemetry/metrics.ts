import { Counter, Histogram, Registry, collectDefaultMetrics } from "prom-client";
import { type FlowReading, registerFlows } from "./flows.ts";
import { type Observer, deploymentMetricOutcomes } from "./observer.ts";
import { createRequestMetrics } from "./requests.ts";
import { registerSamples } from "./register-samples.ts";
import { type StoreMetrics, createStoreMetrics } from "./stores.ts";

type RuntimeReading = {
  readonly state: string;
  readonly restarts: number;
  /** Time since the last heartbeat of the runtime process. */
  readonly heartbeatAgeMs: number;
};

/** All metrics of one gateway, in a registry of its own. */
export interface Metrics {
  readonly observer: Observer;
  readonly stores: StoreMetrics;
  /** Read at each scrape. */
  watchRuntime(states: readonly string[], read: () => RuntimeReading): void;
  /** `read` returns the state of each replica. */
  watchReplicas(states: readonly string[], read: () => readonly string[]): void;
  /** `hasNodes`: each node is measured too. */
  watchFlows(flows: FlowReading, hasNodes: boolean): void;
  watchConnections(count: () => number | Promise<number>): void;
  /** `dropped` returns the number of events that could not be recorded. */
  watchJournal(dropped: () => number): void;
  /** Counts attempts to deliver events, by target and outcome, from the start. */
  countWebhooks(targets: readonly string[], outcomes: readonly string[]): (target: string, outcome: string) => void;
  /** `notAfterMs` returns the expiry of the certificate in use, in Unix time. */
  watchCertificate(notAfterMs: () => number): void;
  /** All metrics in Prometheus' text format. */
  text(): Promise<string>;
}

/** The content type of `text()`. */
export const metricsContentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** Label values that are exported from the start with 0, so that the first event is an increase. */
type LabelValues = {
  readonly deploymentTypes: readonly string[];
  readonly sheddingReasons: readonly string[];
  readonly limits: readonly string[];
  /** Absent: the service has no TLS. */
  readonly tlsFailures?: readonly string[] | undefined;
};

export function createMetrics(options: LabelValues & { readonly version: string }): Metrics {
  const registry = new Registry();
  const processRegistry = processMetrics();
  const buildInfo = { version: options.version, node: process.versions.node };
  registerSamples(registry, {
    name: "flowgate_build_info",
    help: "Always 1. The labels are the versions of the service and of Node.js.",
    type: "gauge",
    values: () => [{ labels: buildInfo, value: 1 }],
  });
  const deploymentLabels = { labelNames: ["type", "outcome"], registers: [registry] };
  const deployments = new Counter({
    ...deploymentLabels,
    name: "flowgate_deployments_total",
    help: "Deployments, by type and outcome.",
  });
  const durations = new Histogram({
    ...deploymentLabels,
    name: "flowgate_deployment_duration_seconds",
    help: "Time from the start of a deployment to its response: validation, commit, and start in the runtime.",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  });
  const shed = new Counter({
    name: "flowgate_calls_shed_total",
    help: "Calls rejected because the service is overloaded, by reason.",
    labelNames: ["reason"],
    registers: [registry],
  });
  const limited = new Counter({
    name: "flowgate_limits_exceeded_total",
    help: "Connections and calls ended because they exceeded a limit, by limit.",
    labelNames: ["limit"],
    registers: [registry],
  });
  const tlsFailures = createTlsFailures(registry, options.tlsFailures);
  for (const type of options.deploymentTypes) {
    for (const outcome of deploymentMetricOutcomes) {
      deployments.inc({ type, outcome }, 0);
    }
  }
  options.sheddingReasons.forEach((reason) => shed.inc({ reason }, 0));
  options.limits.forEach((limit) => limited.inc({ limit }, 0));

  // Concurrent scrapes share one result, since rendering is slow.
  let text: Promise<string> | undefined;
  const render = async (): Promise<string> => {
    try {
      return `${await registry.metrics()}\n${await processRegistry.metrics()}`;
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
    watchReplicas(states, read) {
      registerSamples(registry, {
        name: "flowgate_replicas",
        help: "Replicas that use the store, by the state of their flow runtime.",
        type: "gauge",
        values() {
          const now = read();
          return states.map((state) => ({ labels: { state }, value: now.filter((one) => one === state).length }));
        },
      });
    },
    watchFlows: (flows, hasNodes) => registerFlows(registry, flows, hasNodes),
    watchConnections(count) {
      registerSamples(registry, {
        name: "flowgate_connections",
        help: "Open connections to the API.",
        type: "gauge",
        values: async () => [{ value: await count() }],
      });
    },
    watchJournal(dropped) {
      registerSamples(registry, {
        name: "flowgate_journal_dropped_events_total",
        help: "Events that could not be recorded in the journal.",
        type: "counter",
        values: () => [{ value: dropped() }],
      });
    },
    countWebhooks(targets, outcomes) {
      const deliveries = new Counter({
        name: "flowgate_webhook_deliveries_total",
        help: "Attempts to deliver an event to a webhook, by target (its index in webhooks.targets) and outcome. Only with targets.",
        labelNames: ["target", "outcome"],
        registers: [registry],
      });
      targets.forEach((target) => outcomes.forEach((outcome) => deliveries.inc({ target, outcome }, 0)));
      return (target, outcome) => deliveries.inc({ target, outcome });
    },
    watchCertificate(notAfterMs) {
      registerSamples(registry, {
        name: "flowgate_certificate_not_after_seconds",
        help: "Expiry of the current certificate, in Unix time.",
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
    help: "Failed TLS handshakes, by reason.",
    labelNames: ["reason"],
    registers: [registry],
  });
  reasons.forEach((reason) => failures.inc({ reason }, 0));
  return failures;
}

function registerRuntime(registry: Registry, states: readonly string[], read: () => RuntimeReading): void {
  registerSamples(registry, {
    name: "flowgate_runtime_state",
    help: "1 for the current state of the flow runtime, 0 for the others.",
    type: "gauge",
    values() {
      const now = read().state;
      return states.map((state) => ({ labels: { state }, value: state === now ? 1 : 0 }));
    },
  });
  registerSamples(registry, {
    name: "flowgate_runtime_restarts_total",
    help: "Unexpected exits of the runtime process, each followed by a restart.",
    type: "counter",
    values: () => [{ value: read().restarts }],
  });
  registerSamples(registry, {
    name: "flowgate_runtime_heartbeat_age_seconds",
    help: "Time since the last heartbeat of the runtime process, which sends four per second; 0 while the flows are stopped.",
    type: "gauge",
    values: () => [{ value: read().heartbeatAgeMs / 1000 }],
  });
}

let registry: Registry | undefined;

/** Metrics of the process (CPU, memory, event loop, garbage collection), shared by all gateways in it. */
function processMetrics(): Registry {
  if (registry === undefined) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry;
}
