import type { Budget } from "../../budget.ts";
import type { FlowNode } from "../../configuration.ts";
import { countRunning } from "../count-running.ts";
import { parseForRuntime } from "../runtime-flows.ts";
import { type RunningNode, startAll } from "../running-flows.ts";
import type { Finding } from "./finding.ts";

/** Finds "http in" nodes that run with the same method and path: only the first of them receives requests. */
export function* findDuplicateEndpoints(flows: readonly FlowNode[], budget: Budget): Generator<Finding> {
  const endpoints = new Map<FlowNode, string>();
  for (const node of flows) {
    const endpoint = endpointOf(node);
    if (endpoint !== undefined) {
      endpoints.set(node, endpoint);
    }
  }
  if (endpoints.size === 0) {
    return;
  }
  // Determined once for each node, since it can run in many instances.
  const routes = new Map<FlowNode, RunningNode[]>();
  for (const nodes of Map.groupBy(endpoints.keys(), (node) => routeOf(endpoints.get(node) ?? "")).values()) {
    const running: RunningNode[] = [];
    nodes.forEach((node) => routes.set(node, running));
  }
  const parsed = parseForRuntime(flows);
  budget.checkRunning(countRunning(parsed));
  const started = new Set<readonly RunningNode[]>();
  startAll(parsed, (running) => {
    const route = routes.get(running.node);
    if (route !== undefined) {
      route.push(running);
      started.add(route);
    }
  });
  for (const [first, ...others] of started) {
    for (const { node, instances } of others) {
      const inInstance = instances.length === 0 ? "" : `, in the instance ${JSON.stringify(instances.at(-1))}`;
      yield {
        node,
        message: `${endpoints.get(node)} is served by ${JSON.stringify(first?.node.id)} already${inInstance}`,
      };
    }
  }
}

/** The method and path of a node; undefined if it is not an endpoint, or if its path comes from the environment. */
function endpointOf({ type, method, url }: FlowNode): string | undefined {
  if (type !== "http in" || typeof method !== "string" || typeof url !== "string" || url === "" || url.includes("${")) {
    return undefined;
  }
  return `${method.toUpperCase()} ${url.startsWith("/") ? url : `/${url}`}`;
}

/**
 * The same text for endpoints that match the same paths in Express 4, which ignores case, a trailing slash and the names of parameters.
 * A path with a regular expression is compared as it is.
 */
function routeOf(endpoint: string): string {
  const route = endpoint.replace(/(?<=[^ ])\/$/, "");
  return /[(\\]/.test(route) ? route : route.toLowerCase().replaceAll(/:\w+/g, ":");
}
