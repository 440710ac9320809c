import { Registry, collectDefaultMetrics } from "prom-client";

let registry: Registry | undefined;

/** Metrics of the process (CPU, memory, event loop, garbage collection), shared by all gateways in it. */
export function processMetrics(): Registry {
  if (registry === undefined) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry;
}
