import type { FlowNode } from "../../configuration.ts";
import { parseForRuntime } from "../runtime-flows.ts";
import { type RunningNode, startAll } from "../running-flows.ts";
import type { Finding } from "./finding.ts";

/** Finds "http in" nodes that run with the same method and path: only the first of them receives requests. */
export function findDuplicateEndpoints(flows: readonly FlowNode[]): readonly Finding[] {
  const endpoints: RunningNode[] = [];
  startAll(parseForRuntime(flows), (running) => {
    if (pathOf(running.node) !== undefined) {
      endpoints.push(running);
    }
  });
  const byPath = Map.groupBy(endpoints, ({ node }) => pathOf(node));
  return Array.from(byPath, ([path, nodes]) =>
    nodes.slice(1).map(({ node, instances }) => {
      const first = nodes[0] as RunningNode;
      const inInstance = instances.length === 0 ? "" : `, in the instance ${JSON.stringify(instances.at(-1))}`;
      return { node, message: `${path} is served by ${JSON.stringify(first.node.id)} already${inInstance}` };
    }),
  ).flat();
}

/** Undefined if the node is no endpoint, or if its path comes from the environment. */
function pathOf({ type, method, url }: FlowNode): string | undefined {
  if (type !== "http in" || typeof method !== "string" || typeof url !== "string" || url === "" || url.includes("${")) {
    return undefined;
  }
  const path = `/${url}`.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  return `${method.toUpperCase()} ${path}`;
}
