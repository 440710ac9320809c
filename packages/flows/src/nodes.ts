import type { FlowNode } from "./configuration.ts";

/**
 * The kind of a node for the runtime: `instance` is an instance of a subflow, `config` a configuration node, `node` any other node
 * that messages pass through.
 */
export type NodeRole = "tab" | "subflow" | "group" | "config" | "instance" | "node";

/** A node without coordinates is a configuration node, whatever its type. */
export function roleOf(node: FlowNode): NodeRole {
  if (node.type === "tab" || node.type === "subflow" || node.type === "group") {
    return node.type;
  }
  if (!hasPosition(node)) {
    return "config";
  }
  return subflowOf(node) === undefined ? "node" : "instance";
}

export function hasPosition(node: FlowNode): boolean {
  return Object.hasOwn(node, "x") && Object.hasOwn(node, "y");
}

/** True if messages can be wired to the node. The runtime passes them to nodes without coordinates too, which scripts often omit. */
export function receivesMessages(node: FlowNode): boolean {
  const role = roleOf(node);
  return role === "node" || role === "instance" || (role === "config" && Array.isArray(node["wires"]));
}

/** The id of the subflow of which this node is an instance. */
export function subflowOf({ type }: FlowNode): string | undefined {
  return type.startsWith("subflow:") && type.length > "subflow:".length ? type.slice("subflow:".length) : undefined;
}

/** The name that the editor shows, if the node has one. */
export function nameOf({ name, label }: FlowNode): string | undefined {
  return [name, label].find((text) => typeof text === "string" && text !== "") as string | undefined;
}

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

/**
 * Finds the tabs that exist only as the `z` of nodes that messages pass through: an exported selection of nodes has no tab, and the
 * runtime creates it. Configuration nodes alone make no tab: without one they are global.
 */
export function findMissingTabs(flows: readonly FlowNode[]): ReadonlySet<string> {
  const containers = new Set(flows.filter(({ type }) => type === "tab" || type === "subflow").map(({ id }) => id));
  const referenced = flows.filter(receivesMessages).map(containerIdOf);
  return new Set(referenced.filter((id) => id !== "" && !containers.has(id)));
}

export function containerIdOf(node: FlowNode): string {
  if (node.type === "tab" || node.type === "subflow") {
    return node.id;
  }
  return typeof node["z"] === "string" ? node["z"] : "";
}
