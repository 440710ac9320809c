import type { Configuration, FlowNode } from "../configuration.ts";
import { findModified } from "./modified-nodes.ts";
import { changedCredentials } from "../credential-sets.ts";
import { type RuntimeFlows, containerKey, parseForRuntime, toKey } from "./runtime-flows.ts";
import { linksOf, targetsOf } from "./wires.ts";

/** The nodes whose behavior a change of the flows can affect. */
export type AffectedNodes =
  /** The environment of all nodes has changed. */
  | "all"
  /**
   * The ids of nodes on tabs, of subflow instances with all that they contain, and of tabs of which the environment has changed, with all
   * their nodes.
   */
  | readonly string[];

/**
 * Finds the nodes that a deployment of `next` changes, and those that messages of them can reach: over wires, links and subflow instances,
 * and through nodes that receive errors, statuses or completions of others. What nodes pass on in other ways is not known, such as in
 * context, files and requests.
 *
 * The result contains too many nodes rather than too few: a message that returns from a link call can reach all link calls, a dynamic
 * call all link nodes, and a subflow instance is affected as a whole.
 */
export function findAffected(current: Configuration, next: Configuration): AffectedNodes {
  const [before, after] = [parseForRuntime(current.flows), parseForRuntime(next.flows)];
  const { added, changed, rewired, tabs, isGlobal } = findModified(
    before,
    after,
    changedCredentials(current.credentials, next.credentials),
  );
  if (isGlobal) {
    return "all";
  }
  const successorsOf = readSuccessors(after);
  const modified = [...added, ...changed, ...rewired].filter((id) => isOnTab(id, after));
  const affected = new Set([...tabs, ...modified]);
  const visited = new Set<readonly string[]>();
  // Grows while it is visited.
  for (const id of affected) {
    for (const successors of successorsOf(id)) {
      if (!visited.has(successors)) {
        visited.add(successors);
        successors.forEach((each) => affected.add(each));
      }
    }
  }
  return [...affected];
}

/** Tabs and subflows are `changed` when their nodes are. A subflow is affected in its instances. */
function isOnTab(id: string, { nodes }: RuntimeFlows): boolean {
  const type = nodes.get(id)?.type;
  return type !== undefined && type !== "tab" && type !== "subflow";
}

/** Returns the nodes that messages of a node can reach next, or the nodes of a tab, in lists of which several nodes can share one. */
function readSuccessors({ nodes, tabs, subflows }: RuntimeFlows): (id: string) => readonly (readonly string[])[] {
  const outside = [...nodes.values()].filter((node) => !tabs.has(node.id) && !subflows.has(containerKey(node)));
  const content = groupIds(outside, (node) => [containerKey(node)]);
  const inputs = outside.filter(({ type }) => type === "link in").map(({ id }) => id);
  const calls = outside.filter(({ type }) => type === "link call").map(({ id }) => id);
  // A link exists if either of its ends lists the other.
  const linksBack = groupIds(outside, (node) => (node.type === "link in" ? linksOf(node) : []));
  const observing = outside.filter(({ type }) => observers.has(type));
  const observersOfTab = groupIds(observing, (node) => (Array.isArray(node["scope"]) ? [] : [containerKey(node)]));
  const observersOfNode = groupIds(observing, ({ scope }) => (Array.isArray(scope) ? scope.map(toKey) : []));

  return (id) => {
    const node = nodes.get(id);
    if (node === undefined || tabs.has(id)) {
      return [content.get(id) ?? none];
    }
    return [
      targetsOf(node).filter((target) => nodes.has(target)),
      linkedFrom(node),
      observersOfTab.get(containerKey(node)) ?? none,
      observersOfNode.get(id) ?? none,
    ];
  };

  function linkedFrom(node: FlowNode): readonly string[] {
    if (node.type === "link out") {
      return node["mode"] === "return" ? calls : [...linksOf(node), ...(linksBack.get(node.id) ?? none)];
    }
    if (node.type === "link call") {
      return node["linkType"] === "dynamic" ? inputs : linksOf(node);
    }
    return none;
  }
}

const none: readonly string[] = [];

/** They receive what happens to other nodes of their tab. */
const observers: ReadonlySet<string> = new Set(["catch", "status", "complete"]);

/** The ids of the nodes by each of their keys. */
function groupIds(
  nodes: readonly FlowNode[],
  keysOf: (node: FlowNode) => readonly string[],
): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const node of nodes) {
    for (const key of keysOf(node)) {
      groups.getOrInsertComputed(key, () => []).push(node.id);
    }
  }
  return groups;
}
