import type { JsonObject } from "../json.ts";
import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import { hasPosition, subflowOf } from "../nodes.ts";
import { isSameJson, visitTexts } from "../json.ts";
import {
  changeOf,
  isSameState,
  type MergeConflict,
  type MergedChange,
  type MergeResult,
  type NodeVersion,
  type NodeVersions,
  readStates,
  type Side,
  type Versions,
} from "./sides.ts";
import { affectsContainment, readContainment } from "../containment.ts";

/**
 * Merges two changes of one configuration, node by node. They conflict if both change the same node in different ways,
 * if one removes a node that the other refers to, or if a group or subflow would contain itself. The coordinates of a
 * node never conflict: if both sides moved it, `ours` applies. Credentials belong to their node. Throws
 * `limit_exceeded` if the merge exceeds the budget.
 */
export function mergeFlows(
  base: Configuration,
  ours: Configuration,
  theirs: Configuration,
  budget: Budget = new Budget(),
): MergeResult {
  const states = { base: readStates(base), ours: readStates(ours), theirs: readStates(theirs) };
  const merged = new Map<string, NodeVersion>();
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

function toConfiguration(order: readonly string[], merged: NodeVersions): Configuration {
  const states = order.map((id) => merged.get(id) as NodeVersion);
  return {
    flows: states.map(({ node }) => node),
    credentials: new Map(
      states.flatMap(({ node, credentials }) => (credentials === undefined ? [] : [[node.id, credentials] as const])),
    ),
  };
}

function describeConflict(nodeId: string, { base, ours, theirs }: Versions<NodeVersion | undefined>): MergeConflict {
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
type MergedNode = { readonly state: NodeVersion | undefined; readonly from: MergedChange["from"] | undefined };

function mergeNode({ base, ours, theirs }: Versions<NodeVersion | undefined>): MergedNode | "conflict" {
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
function mergeMoved({ base, ours, theirs }: Versions<NodeVersion>): MergedNode | "conflict" {
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

function withoutLayout({ node, credentials }: NodeVersion): NodeVersion {
  const hidden = Object.keys(layoutOf(node)).map((key) => [key, null] as const);
  return { node: { ...node, ...Object.fromEntries(hidden) }, credentials };
}

/**
 * The order of merged nodes: the order of the side that reordered existing nodes, `ours` if both did. Each node of the
 * other side alone is inserted after its predecessor there.
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
      insertions.getOrInsertComputed(predecessor, () => []).push(id);
    }
  }
  const kept = primary.filter((id) => merged.has(id));
  return [...(insertions.get("") ?? []), ...kept.flatMap((id) => [id, ...(insertions.get(id) ?? [])])];
}

/** True if the nodes that both have are in different orders. */
function isReordered(base: readonly string[], side: readonly string[]): boolean {
  const [inBase, inSide] = [new Set(base), new Set(side)];
  const before = base.filter((id) => inSide.has(id));
  return !side.filter((id) => inBase.has(id)).every((id, index) => id === before[index]);
}

/** Finds changes of different nodes that are not valid, or not intended, together. */
function findStructuralConflicts(
  states: Versions<NodeVersions>,
  merged: NodeVersions,
  budget: Budget,
): MergeConflict[] {
  const conflicts: MergeConflict[] = [];
  for (const found of [
    findLostReferences(states, merged, "ours", "theirs"),
    findLostReferences(states, merged, "theirs", "ours"),
    findCycles(merged),
  ]) {
    for (const conflict of found) {
      budget.addOutput(sizeOf(conflict.nodeId) + sizeOf(conflict.message));
      conflicts.push(conflict);
    }
  }
  return conflicts;
}

const messages: Readonly<Record<Side, string>> = {
  ours: "the deployment removes this node, and the active flows refer to it in nodes that they add or change",
  theirs: "the active flows remove this node, and the deployment refers to it in nodes that it adds or changes",
};

/** Finds nodes that one side removed, and that the other side refers to in nodes that it added or changed. */
function* findLostReferences(
  { base, ...sides }: Versions<NodeVersions>,
  merged: NodeVersions,
  remover: Side,
  user: Side,
): Generator<MergeConflict> {
  const removed = new Set([...base.keys()].filter((id) => !sides[remover].has(id) && sides[user].has(id)));
  if (removed.size === 0) {
    return;
  }
  const users = new Map<string, string[]>();
  for (const [id, { node }] of merged) {
    const version = sides[user].get(id)?.node;
    if (version === undefined || isSame(version, base.get(id)?.node) || isSame(version, sides[remover].get(id)?.node)) {
      continue;
    }
    for (const reference of new Set(referencesOf(node)).intersection(removed)) {
      users.getOrInsertComputed(reference, () => []).push(id);
    }
  }
  const changes = { ours: "none", theirs: "none", [remover]: "removed" } as const;
  for (const [nodeId, ids] of users) {
    yield { nodeId, ...changes, message: `${messages[remover]}: ${listIds(ids)}` };
  }
}

const maxListedIds = 3;

function listIds(ids: readonly string[]): string {
  const listed = ids.slice(0, maxListedIds).join(", ");
  return ids.length > maxListedIds ? `${listed} and ${ids.length - maxListedIds} more` : listed;
}

function isSame(one: FlowNode, other: FlowNode | undefined): boolean {
  return other !== undefined && isSameJson(one, other);
}

/** All texts in a node, since any of them can be an id, and the id of its subflow. */
function referencesOf(node: FlowNode): string[] {
  const texts = [subflowOf(node) ?? ""];
  visitTexts(node, (text) => texts.push(text));
  return texts;
}

/** Each side is valid, but together they could put two groups or subflows into each other. */
function findCycles(merged: NodeVersions): MergeConflict[] {
  const nodes = Array.from(merged.values(), ({ node }) => node).filter(affectsContainment);
  const containment = readContainment(nodes);
  return nodes.flatMap((node) => {
    const violation = containment.findViolation(node);
    return violation === undefined
      ? []
      : [{ nodeId: node.id, ours: "changed", theirs: "changed", message: `after the merge, ${violation.message}` }];
  });
}
