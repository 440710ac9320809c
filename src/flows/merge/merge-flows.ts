import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import { mergeNode } from "./merge-node.ts";
import { mergeOrder } from "./merge-order.ts";
import type { MergeConflict, MergedChange, MergeResult } from "./merge-result.ts";
import { changeOf, type NodeState, type NodeStates, readStates, type Versions } from "./node-state.ts";
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
