import type { FlowNode } from "../configuration.ts";
import type { RuntimeFlows } from "./runtime-flows.ts";

/**
 * Finds the nodes that are wired to modified ones, in either direction, directly or through others, by the wires before or
 * after the change. Modified nodes are not included.
 */
export function findLinked(
  before: RuntimeFlows,
  after: RuntimeFlows,
  modified: ReadonlySet<string>,
): ReadonlySet<string> {
  const neighbours = new Map<string, string[]>();
  const connect = (id: string, other: string): void => {
    const known = neighbours.get(id) ?? [];
    known.push(other);
    neighbours.set(id, known);
  };
  for (const { nodes } of [before, after]) {
    for (const node of nodes.values()) {
      for (const target of targetsOf(node)) {
        connect(node.id, target);
        if (nodes.has(target)) {
          connect(target, node.id);
        }
      }
    }
  }

  const linked = new Set<string>();
  const visited = new Set(modified);
  const pending = [...modified];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    for (const neighbour of neighbours.get(id) ?? []) {
      if (!visited.has(neighbour)) {
        visited.add(neighbour);
        pending.push(neighbour);
        if (neighbours.has(neighbour)) {
          linked.add(neighbour);
        }
      }
    }
  }
  return linked;
}

/** The ids that the wires of a node lead to. */
export function targetsOf({ type, wires }: FlowNode): string[] {
  return type === "tab" || !Array.isArray(wires) ? [] : (wires.flat() as string[]);
}
