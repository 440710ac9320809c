import type { FlowNode } from "./configuration.ts";
import { nameOf } from "./node-role.ts";

/**
 * Where nodes are: on a tab, in a subflow, or nowhere in particular, as global configuration nodes are. A tab or subflow is in
 * itself. The id of `global` is empty.
 */
export type Container = {
  readonly kind: "tab" | "subflow" | "global";
  readonly id: string;
  readonly name: string | undefined;
};

export const globalContainer: Container = { kind: "global", id: "", name: undefined };

/** Returns the tabs and subflows of some flows in their order. A tab that exists only as the `z` of nodes is a container too. */
export function readContainers(flows: readonly FlowNode[]): ReadonlyMap<string, Container> {
  const containers = new Map<string, Container>();
  for (const node of flows) {
    if (node.type === "tab" || node.type === "subflow") {
      containers.set(node.id, { kind: node.type, id: node.id, name: nameOf(node) });
    }
  }
  for (const node of flows) {
    const id = containerIdOf(node);
    if (id !== "" && !containers.has(id)) {
      containers.set(id, { kind: "tab", id, name: undefined });
    }
  }
  return containers;
}

export function containerIdOf(node: FlowNode): string {
  if (node.type === "tab" || node.type === "subflow") {
    return node.id;
  }
  return typeof node["z"] === "string" ? node["z"] : "";
}
