import type { FlowNode } from "./configuration.ts";

/**
 * What a node is to the runtime: `instance` is an instance of a subflow, `config` a configuration node, `node` any other node
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

/** Whether messages can be wired to the node. The runtime passes them to nodes without coordinates too, which scripts often omit. */
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
