import type { Configuration, FlowNode } from "../configuration.ts";
import { isSameJson } from "../same-json.ts";
import type { SideChange } from "./merge-result.ts";

/** A node with its credentials. */
export type NodeState = { readonly node: FlowNode; readonly credentials: ReadonlyMap<string, string> | undefined };

/** The nodes of a configuration by id. */
export type NodeStates = ReadonlyMap<string, NodeState>;

/** What the base and both sides of a merge have: a node, which can be undefined, or all nodes. */
export type Versions<T> = { readonly base: T; readonly ours: T; readonly theirs: T };

export function readStates({ flows, credentials }: Configuration): NodeStates {
  return new Map(flows.map((node) => [node.id, { node, credentials: credentials.get(node.id) }]));
}

export function isSameState(one: NodeState | undefined, other: NodeState | undefined): boolean {
  return one === undefined || other === undefined
    ? one === other
    : isSameJson(one.node, other.node) && isSameSet(one.credentials, other.credentials);
}

function isSameSet(one: NodeState["credentials"] = new Map(), other: NodeState["credentials"] = new Map()): boolean {
  return one.size === other.size && one.entries().every(([name, value]) => other.get(name) === value);
}

export function changeOf(base: NodeState | undefined, side: NodeState | undefined): SideChange {
  if (isSameState(base, side)) {
    return "none";
  }
  return base === undefined ? "added" : side === undefined ? "removed" : "changed";
}
