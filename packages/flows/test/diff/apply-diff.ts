import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FlowNode } from "../../src/configuration.ts";
import type { FlowsDiff, NodeDiff, PropertyChange } from "../../src/diff/differences.ts";

/** Recreates the nodes of a diff's target, in their order. `base` must be the base of the diff. */
export function applyDiff(diff: FlowsDiff, base: readonly FlowNode[]): FlowNode[] {
  const nodes = new Map(base.map((node) => [node.id, node]));
  const moves = new Map<string, string>();
  for (const each of diff.containers.flatMap((container) => container.nodes)) {
    if (each.change === "removed") {
      nodes.delete(each.id);
    } else {
      nodes.set(each.id, applyNodeDiff(each, nodes.get(each.id)));
    }
    if (each.after !== undefined) {
      moves.set(each.id, each.after);
    }
  }
  const kept = [...nodes.keys()].filter((id) => !moves.has(id));
  return applyOrder(kept, moves).map((id) => nodes.get(id) as FlowNode);
}

function applyNodeDiff({ id, type, properties }: NodeDiff, base: FlowNode | undefined): FlowNode {
  const node = base === undefined ? { id, type } : structuredClone(base);
  for (const change of properties) {
    applyChange(node, change);
  }
  return node;
}

type Parent = JsonObject | JsonValue[];

function applyChange(node: JsonObject, { path, after }: PropertyChange): void {
  let parent: Parent = node;
  for (const step of path.slice(0, -1)) {
    parent = member(parent, step) as Parent;
  }
  const last = path.at(-1) as string | number;
  if (Array.isArray(parent)) {
    if (after === undefined) {
      // Only elements at the end are removed.
      parent.length = Math.min(parent.length, last as number);
    } else {
      parent[last as number] = structuredClone(after);
    }
  } else if (after === undefined) {
    delete parent[last];
  } else {
    parent[last] = structuredClone(after);
  }
}

function member(parent: Parent, step: string | number): JsonValue | undefined {
  return (parent as JsonObject)[step];
}

/** The inverse of `diffOrder`: inserts each element of `moves` after its predecessor. `kept` are the others, in order. */
function applyOrder(kept: Iterable<string>, moves: ReadonlyMap<string, string>): string[] {
  // No two elements precede the same one, so that each predecessor has one successor.
  const successors = new Map(Array.from(moves, ([id, predecessor]) => [predecessor, id]));
  const order: string[] = [];
  const appendMoved = (predecessor: string): void => {
    for (let id = successors.get(predecessor); id !== undefined; id = successors.get(id)) {
      order.push(id);
    }
  };
  appendMoved("");
  for (const id of kept) {
    order.push(id);
    appendMoved(id);
  }
  return order;
}
