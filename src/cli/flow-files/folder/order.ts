import { hasPosition } from "../../../flows/nodes.ts";
import type { FlowNode } from "../../../flows/configuration.ts";

/**
 * The order in which Node-RED's editor saves nodes: tabs, subflows, groups, junctions, configuration nodes, others, each of
 * them in the order of `items`. `nodeOf` returns undefined for what is not a node, which comes last.
 */
export function sortAsEditor<T>(items: readonly T[], nodeOf: (item: T) => FlowNode | undefined): T[] {
  const sections = Map.groupBy(items, (item) => sectionOf(nodeOf(item)));
  return sectionNames.flatMap((name) => sections.get(name) ?? []);
}

const sectionNames = ["tab", "subflow", "group", "junction", "config", "other"] as const;

function sectionOf(node: FlowNode | undefined): (typeof sectionNames)[number] {
  switch (node?.type) {
    case undefined:
      return "other";
    case "tab":
    case "subflow":
    case "group":
    case "junction":
      return node.type;
    default:
      return hasPosition(node as FlowNode) ? "other" : "config";
  }
}

/**
 * Moves each item of `moves` behind its new predecessor, in their order; "" is the place before all others. This is the
 * inverse of `diffOrder`, and has a result too for items that were added or removed since: unknown ids are ignored.
 */
export function applyMoves<T>(
  items: readonly T[],
  idOf: (item: T) => string | undefined,
  moves: ReadonlyMap<string, string>,
): T[] {
  const indices = new Map(items.map((item, index) => [idOf(item), index]));
  // A circular linked list. Its head, -1 as the predecessor of the first item, has the last index.
  const head = items.length;
  const next = Array.from({ length: head + 1 }, (_, index) => (index + 1) % (head + 1));
  const previous = Array.from({ length: head + 1 }, (_, index) => (index + head) % (head + 1));
  for (const [id, predecessorId] of moves) {
    const index = indices.get(id);
    const predecessor = predecessorId === "" ? head : indices.get(predecessorId);
    if (index !== undefined && predecessor !== undefined && index !== predecessor) {
      link(previous[index] as number, next[index] as number);
      link(index, next[predecessor] as number);
      link(predecessor, index);
    }
  }
  return Array.from(follow(), (index) => items[index] as T);

  function link(one: number, other: number): void {
    next[one] = other;
    previous[other] = one;
  }

  function* follow(): Generator<number> {
    for (let index = next[head] as number; index !== head; index = next[index] as number) {
      yield index;
    }
  }
}
