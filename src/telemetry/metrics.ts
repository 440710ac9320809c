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
  watchRuntime(states: readonly string[], read: () => RuntimeReading): void;
  /** `read` returns the state of the flows on all replicas. */
  watchHealth(states: readonly string[], read: () => string): void;
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
  text(): Promise<string>;
}

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
  return new RegisteredMetrics(options);
}

class RegisteredMetrics implements Metrics {
  readonly observer: Observer;
  readonly stores: StoreMetrics;
  readonly #registry = new Registry();
  readonly #processRegistry = processMetrics();
  /** Concurrent scrapes share one result, since rendering is slow. */
  #text: Promise<string> | undefined;

  constructor({ version, ...values }: LabelValues & { readonly version: string }) {
    this.observer = createObserver(this.#registry, values);
    this.stores = createStoreMetrics(this.#registry);
    registerSamples(this.#registry, {
      name: "flowgate_build_info",
      help: "Always 1. The labels are the versions of the service and of Node.js.",
      type: "gauge",
      values: () => [{ labels: { version, node: process.versions.node }, value: 1 }],
    });
  }

  watchRuntime(states: readonly string[], read: () => RuntimeReading): void {
    registerSamples(this.#registry, {
      name: "flowgate_runtime_state",
      help: "1 for the current state of the flow runtime, 0 for the others.",
      type: "gauge",
      values() {
        const now = read().state;
        return states.map((state) => ({ labels: { state }, value: state === now ? 1 : 0 }));
      },
    });
    registerSamples(this.#registry, {
      name: "flowgate_runtime_restarts_total",
      help: "Unexpected exits of the runtime process, each followed by a restart.",
      type: "counter",
      values: () => [{ value: read().restarts }],
    });
    registerSamples(this.#registry, {
      name: "flowgate_runtime_heartbeat_age_seconds",
      help: "Time since the last heartbeat of the runtime process, which sends four per second; 0 while the flows are stopped.",
      type: "gauge",
      values: () => [{ value: read().heartbeatAgeMs / 1000 }],
    });
  }

  watchHealth(states: readonly string[], read: () => string): void {
    registerSamples(this.#registry, {
      name: "flowgate_health",
      help: "1 for the current health of the flows, on all replicas that run them, 0 for the other states.",
      type: "gauge",
      values() {
        const now = read();
        return states.map((state) => ({ labels: { state }, value: state === now ? 1 : 0 }));
      },
    });
  }

  watchReplicas(states: readonly string[], read: () => readonly string[]): void {
    registerSamples(this.#registry, {
      name: "flowgate_replicas",
      help: "Replicas that use the store, by the state of their flow runtime.",
      type: "gauge",
      values() {
        const now = read();
        return states.map((state) => ({ labels: { state }, value: now.filter((one) => one === state).length }));
      },
    });
  }

  watchFlows(flows: FlowReading, hasNodes: boolean): void {
    registerFlows(this.#registry, flows, hasNodes);
  }

  watchConnections(count: () => number | Promise<number>): void {
    registerSamples(this.#registry, {
      name: "flowgate_connections",
      help: "Open connections to the API.",
      type: "gauge",
      values: async () => [{ value: await count() }],
    });
  }

  watchJournal(dropped: () => number): void {
    registerSamples(this.#registry, {
      name: "flowgate_journal_dropped_events_total",
      help: "Events that could not be recorded in the journal.",
      type: "counter",
      values: () => [{ value: dropped() }],
    });
  }

  countWebhooks(targets: readonly string[], outcomes: readonly string[]): (target: string, outcome: string) => void {
    const deliveries = new Counter({
      name: "flowgate_webhook_deliveries_total",
      help: "Attempts to deliver an event to a webhook, by target (its index in webhooks.targets) and outcome. Only with targets.",
      labelNames: ["target", "outcome"],
      registers: [this.#registry],
    });
    targets.forEach((target) => outcomes.forEach((outcome) => deliveries.inc({ target, outcome }, 0)));
    return (target, outcome) => deliveries.inc({ target, outcome });
  }

  watchCertificate(notAfterMs: () => number): void {
    registerSamples(this.#registry, {
      name: "flowgate_certificate_not_after_seconds",
      help: "Expiry of the current certificate, in Unix time.",
      type: "gauge",
      values: () => [{ value: notAfterMs() / 1000 }],
    });
  }

  text(): Promise<string> {
    return (this.#text ??= this.#render());
  }

  async #render(): Promise<string> {
    try {
      return `${await this.#registry.metrics()}\n${await this.#processRegistry.metrics()}`;
    } finally {
      this.#text = undefined;
    }
  }
}

function createObserver(registry: Registry, values: LabelValues): Observer {
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
  for (const type of values.deploymentTypes) {
    for (const outcome of deploymentMetricOutcomes) {
      deployments.inc({ type, outcome }, 0);
    }
  }
  const count = (name: string, help: string, label: string, known: readonly string[]): ((value: string) => void) => {
    const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
    known.forEach((value) => counter.inc({ [label]: value }, 0));
    return (value) => counter.inc({ [label]: value });
  };
  const tlsFailures = values.tlsFailures;
  return {
    ...createRequestMetrics(registry),
    callShed: count(
      "flowgate_calls_shed_total",
      "Calls rejected because the service is overloaded, by reason.",
      "reason",
      values.sheddingReasons,
    ),
    limitReached: count(
      "flowgate_limits_exceeded_total",
      "Connections and calls ended because they exceeded a limit, by limit.",
      "limit",
      values.limits,
    ),
    tlsHandshakeFailed:
      tlsFailures === undefined
        ? () => {}
        : count("flowgate_tls_handshake_failures_total", "Failed TLS handshakes, by reason.", "reason", tlsFailures),
    deployed(type, outcome, seconds) {
      deployments.inc({ type, outcome });
      durations.observe({ type, outcome }, seconds);
    },
  };
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
