import { type Budget, sizeOf } from "../budget.ts";
import type { FlowNode } from "../configuration.ts";
import { affectsContainment, readContainment } from "../containment.ts";
import { subflowOf } from "../nodes.ts";
import { isSameJson, visitTexts } from "../json.ts";
import type { MergeConflict, NodeStates, Side, Versions } from "./sides.ts";

/** Finds changes of different nodes that are not valid, or not intended, together. */
export function findStructuralConflicts(
  states: Versions<NodeStates>,
  merged: NodeStates,
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
  { base, ...sides }: Versions<NodeStates>,
  merged: NodeStates,
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
      const ids = users.get(reference) ?? [];
      ids.push(id);
      users.set(reference, ids);
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
function findCycles(merged: NodeStates): MergeConflict[] {
  const nodes = Array.from(merged.values(), ({ node }) => node).filter(affectsContainment);
  const containment = readContainment(nodes);
  return nodes.flatMap((node) => {
    const violation = containment.findViolation(node);
    return violation === undefined
      ? []
      : [{ nodeId: node.id, ours: "changed", theirs: "changed", message: `after the merge, ${violation.message}` }];
  });
}
