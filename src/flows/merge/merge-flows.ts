import type { JsonObject } from "@bufbuild/protobuf";
import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import { hasPosition } from "../nodes.ts";
import { isSameJson } from "../json.ts";
import {
  type MergeConflict,
  type MergeResult,
  type MergedChange,
  type NodeState,
  type NodeStates,
  type Versions,
  changeOf,
  isSameState,
  readStates,
} from "./sides.ts";
import { findStructuralConflicts } from "./structural-conflicts.ts";

/**
 * Merges two changes of one configuration, node by node. They are in conflict if both change the same node in different ways,
 * if one removes what the other refers to, or if the result would contain a group or subflow in itself. The coordinates of a
 * node are no conflict: if both sides moved it, it is where `ours` moved it. Credentials belong to their node. Throws
 * `limit_exceeded` if that exceeds the budget.
 */
export function mergeFlows(
  base: Configuration,
  ours: Configuration,
  theirs: Configuration,
  budget: Budget = new Budget(),
): MergeResult {
  const states = { base: readStates(base), ours: readStates(ours), theirs: readStates(theirs) };
  const merged = new Map<string, NodeState>();
  const changes: MergedChange[] = [];
  const conflicts: MergeConflict[] = [];

  for (const id of new Set([...states.base.keys(), ...states.theirs.keys(), ...states.ours.keys()])) {
    const versions = { base: states.base.get(id), ours: states.ours.get(id), theirs: states.theirs.get(id) };
    const result = mergeNode(versions);
    budget.addOutput(result === "conflict" || result.from !== undefined ? sizeOf(id) : 0);
    if (result === "conflict") {
      conflicts.push(describeConflict(id, versions));
      continue;
    }
    if (result.state !== undefined) {
      merged.set(id, result.state);
    }
    if (result.from !== undefined) {
      changes.push({ nodeId: id, from: result.from });
    }
  }
  const found = conflicts.length === 0 ? findStructuralConflicts(states, merged, budget) : conflicts;
  if (found.length > 0) {
    return { kind: "conflict", conflicts: found };
  }
  const order = mergeOrder(base.flows.map(idOf), ours.flows.map(idOf), theirs.flows.map(idOf), merged);
  return { kind: "merged", configuration: toConfiguration(order, merged), changes };
}

function toConfiguration(order: readonly string[], merged: NodeStates): Configuration {
  const states = order.map((id) => merged.get(id) as NodeState);
  return {
    flows: states.map(({ node }) => node),
    credentials: new Map(
      states.flatMap(({ node, credentials }) => (credentials === undefined ? [] : [[node.id, credentials] as const])),
    ),
  };
}

function describeConflict(nodeId: string, { base, ours, theirs }: Versions<NodeState | undefined>): MergeConflict {
  const changes = { ours: changeOf(base, ours), theirs: changeOf(base, theirs) };
  const message =
    changes.ours === "removed"
      ? "the deployment removes this node, which the active flows change"
      : changes.theirs === "removed"
        ? "the deployment changes this node, which the active flows remove"
        : "the deployment and the active flows change this node in different ways";
  return { nodeId, ...changes, message };
}

function idOf({ id }: FlowNode): string {
  return id;
}

/** `state` is undefined if the node does not exist; `from` is undefined if neither side changed it. */
type MergedNode = { readonly state: NodeState | undefined; readonly from: MergedChange["from"] | undefined };

function mergeNode({ base, ours, theirs }: Versions<NodeState | undefined>): MergedNode | "conflict" {
  if (isSameState(ours, theirs)) {
    return { state: ours, from: isSameState(base, ours) ? undefined : "both" };
  }
  if (isSameState(base, ours)) {
    return { state: theirs, from: "theirs" };
  }
  if (isSameState(base, theirs)) {
    return { state: ours, from: "ours" };
  }
  return base === undefined || ours === undefined || theirs === undefined
    ? "conflict"
    : mergeMoved({ base, ours, theirs });
}

/** Merges two changes of a node if at least one of them only moved it. */
function mergeMoved({ base, ours, theirs }: Versions<NodeState>): MergedNode | "conflict" {
  const plain = { base: withoutLayout(base), ours: withoutLayout(ours), theirs: withoutLayout(theirs) };
  const changed = isSameState(plain.base, plain.ours) ? theirs : ours;
  if (changed === ours && !isSameState(plain.base, plain.theirs) && !isSameState(plain.ours, plain.theirs)) {
    return "conflict";
  }
  const moved = isSameJson(layoutOf(base.node), layoutOf(ours.node)) ? theirs : ours;
  return { state: { ...changed, node: { ...changed.node, ...layoutOf(moved.node) } }, from: "both" };
}

/** Empty for a configuration node: whether a node has coordinates is not part of its layout. */
function layoutOf(node: FlowNode): JsonObject {
  const keys = !hasPosition(node) ? [] : node.type === "group" ? ["x", "y", "w", "h"] : ["x", "y"];
  return Object.fromEntries(keys.flatMap((key) => (Object.hasOwn(node, key) ? [[key, node[key] ?? null]] : [])));
}

function withoutLayout({ node, credentials }: NodeState): NodeState {
  const hidden = Object.keys(layoutOf(node)).map((key) => [key, null] as const);
  return { node: { ...node, ...Object.fromEntries(hidden) }, credentials };
}

/**
 * The order of merged nodes: that of the side which changed the order of existing nodes, `ours` if both did. Each node that only
 * the other side has is inserted after the one that precedes it there.
 */
function mergeOrder(
  base: readonly string[],
  ours: readonly string[],
  theirs: readonly string[],
  merged: ReadonlyMap<string, unknown>,
): string[] {
  const [primary, secondary] = isReordered(base, ours) ? [ours, theirs] : [theirs, ours];
  const known = new Set(primary);
  const insertions = new Map<string, string[]>();
  let predecessor = "";
  for (const id of secondary.filter((each) => merged.has(each))) {
    if (known.has(id)) {
      predecessor = id;
    } else {
      const inserted = insertions.get(predecessor) ?? [];
      inserted.push(id);
      insertions.set(predecessor, inserted);
    }
  }
  const kept = primary.filter((id) => merged.has(id));
  return [...(insertions.get("") ?? []), ...kept.flatMap((id) => [id, ...(insertions.get(id) ?? [])])];
}

/** Whether the nodes that both have are in different orders. */
function isReordered(base: readonly string[], side: readonly string[]): boolean {
  const [inBase, inSide] = [new Set(base), new Set(side)];
  const before = base.filter((id) => inSide.has(id));
  return !side.filter((id) => inBase.has(id)).every((id, index) => id === before[index]);
}
