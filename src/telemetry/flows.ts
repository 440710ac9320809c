import type { Registry } from "prom-client";
import { registerSamples } from "./register-samples.ts";
import type { Labels, Sample } from "@flowgate/base/series";
import type { NodeReading, TabReading } from "@flowgate/runtime";

/** The activity of the flows, read at each scrape, with the flows' ids and labels. */
export interface FlowReading {
  tabs(): IteratorObject<TabReading>;
  /** None unless nodes are measured. */
  nodes(): IteratorObject<NodeReading>;
  /** Undefined while there is no process. */
  process(): { readonly heapBytes: number; readonly lagSeconds: number } | undefined;
  cpuSeconds(): number;
}

export function registerFlows(registry: Registry, read: FlowReading, hasNodes: boolean): void {
  registerSamples(registry, {
    name: "flowgate_flow_info",
    help: "Always 1. The label of each tab.",
    type: "gauge",
    values: () => read.tabs().map(({ tab, label }) => ({ labels: { tab, label }, value: 1 })),
  });
  registerSamples(registry, {
    name: "flowgate_flow_messages_total",
    help: "Messages that nodes have received, by tab.",
    type: "counter",
    values: () => read.tabs().map(({ tab, messages }) => ({ labels: { tab }, value: messages })),
  });
  registerSamples(registry, {
    name: "flowgate_flow_errors_total",
    help: "Errors of nodes, including caught ones, by tab.",
    type: "counter",
    values: () => read.tabs().map(({ tab, errors }) => ({ labels: { tab }, value: errors })),
  });
  const durations = "flowgate_flow_duration_seconds";
  registerSamples(registry, {
    name: durations,
    help: "Time from when a node receives a message until it has completed it, by tab.",
    type: "histogram",
    values: () => read.tabs().flatMap((tab) => tab.durations.samples(durations)),
  });
  registerHttp(registry, read);
  if (hasNodes) {
    registerNodes(registry, read);
  }
  registerProcess(registry, read);
}

function registerHttp(registry: Registry, read: FlowReading): void {
  registerSamples(registry, {
    name: "flowgate_flow_http_requests_total",
    help: "Requests to HTTP-in nodes, by tab and class of the status. No tab: no node has received the request.",
    type: "counter",
    values: () =>
      read
        .tabs()
        .flatMap(({ tab, responses }) => Array.from(responses, ([code, value]) => ({ labels: { tab, code }, value }))),
  });
  const durations = "flowgate_flow_http_duration_seconds";
  registerSamples(registry, {
    name: durations,
    help: "Time from a request to an HTTP-in node to the end of its response, by tab.",
    type: "histogram",
    values: () =>
      read
        .tabs()
        .filter(({ responseDurations }) => responseDurations.count > 0)
        .flatMap(({ responseDurations }) => responseDurations.samples(durations)),
  });
}

function registerNodes(registry: Registry, read: FlowReading): void {
  registerSamples(registry, {
    name: "flowgate_node_messages_total",
    help: "Messages that a node has received.",
    type: "counter",
    values: () => read.nodes().map((node) => ({ labels: labelsOf(node), value: node.messages })),
  });
  registerSamples(registry, {
    name: "flowgate_node_errors_total",
    help: "Errors of a node, including caught ones.",
    type: "counter",
    values: () => read.nodes().map((node) => ({ labels: labelsOf(node), value: node.errors })),
  });
  const durations = "flowgate_node_duration_seconds";
  registerSamples(registry, {
    name: durations,
    help: "Time from when a node receives a message until it has completed it.",
    type: "summary",
    values: () =>
      read.nodes().flatMap((node) => [
        { metricName: `${durations}_sum`, labels: labelsOf(node), value: node.seconds },
        { metricName: `${durations}_count`, labels: labelsOf(node), value: node.count },
      ]),
  });
}

function labelsOf({ tab, node, type }: NodeReading): Labels {
  return { tab, node, type };
}

function registerProcess(registry: Registry, read: FlowReading): void {
  registerSamples(registry, {
    name: "flowgate_runtime_heap_bytes",
    help: "Heap in use of the runtime process.",
    type: "gauge",
    values: () => toSamples(read.process()?.heapBytes),
  });
  registerSamples(registry, {
    name: "flowgate_runtime_event_loop_lag_seconds",
    help: "The longest delay of the event loop of the runtime process in the last 10 to 20 seconds.",
    type: "gauge",
    values: () => toSamples(read.process()?.lagSeconds),
  });
  registerSamples(registry, {
    name: "flowgate_runtime_cpu_seconds_total",
    help: "CPU time of the runtime process, and of those before it.",
    type: "counter",
    values: () => [{ value: read.cpuSeconds() }],
  });
}

function toSamples(value: number | undefined): Sample[] {
  return value === undefined ? [] : [{ value }];
}
