import { Registry, collectDefaultMetrics } from "prom-client";

let registry: Registry | undefined;

/** What is true of the process (CPU, memory, event loop, garbage collection): once, for all gateways in it. */
export function processMetrics(): Registry {
  if (registry === undefined) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry;
}
