import type { FlowNode } from "../../configuration.ts";
import { parseForRuntime } from "../runtime-flows.ts";
import { type RunningNode, startAll } from "../running-flows.ts";
import type { Finding } from "./finding.ts";

/** Finds "http in" nodes that run with the same method and path: only the first of them receives requests. */
export function findDuplicateEndpoints(flows: readonly FlowNode[]): readonly Finding[] {
  const endpoints: RunningNode[] = [];
  startAll(parseForRuntime(flows), (running) => {
    if (endpointOf(running.node) !== undefined) {
      endpoints.push(running);
    }
  });
  const byRoute = Map.groupBy(endpoints, ({ node }) => routeOf(endpointOf(node) ?? ""));
  return Array.from(byRoute.values(), (nodes) =>
    nodes.slice(1).map(({ node, instances }) => {
      const first = nodes[0] as RunningNode;
      const inInstance = instances.length === 0 ? "" : `, in the instance ${JSON.stringify(instances.at(-1))}`;
      return {
        node,
        message: `${endpointOf(node)} is served by ${JSON.stringify(first.node.id)} already${inInstance}`,
      };
    }),
  ).flat();
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
