/**
 * Numbers the strongly connected components of a graph: an edge is part of a cycle exactly if both its ends have the same
 * number. Tarjan's algorithm, iterative, because a chain can be long enough to overflow the call stack.
 */
export function numberComponents(edges: ReadonlyMap<string, readonly string[]>): ReadonlyMap<string, number> {
  const components = new Map<string, number>();
  const visits = new Map<string, Visit>();
  const unassigned: string[] = [];
  let count = 0;

  function visit(node: string): Visit {
    const visited = { node, order: visits.size, low: visits.size, targets: edges.get(node) ?? [], next: 0 };
    visits.set(node, visited);
    unassigned.push(node);
    return visited;
  }

  for (const root of edges.keys()) {
    const path = visits.has(root) ? [] : [visit(root)];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const target = top.targets[top.next++];
      if (target === undefined) {
        path.pop();
        const caller = path.at(-1);
        if (caller !== undefined) {
          caller.low = Math.min(caller.low, top.low);
        }
        if (top.low === top.order) {
          for (const member of unassigned.splice(unassigned.lastIndexOf(top.node))) {
            components.set(member, count);
          }
          count++;
        }
        continue;
      }
      const seen = visits.get(target);
      if (seen === undefined) {
        path.push(visit(target));
      } else if (!components.has(target)) {
        top.low = Math.min(top.low, seen.order);
      }
    }
  }
  return components;
}

type Visit = { node: string; order: number; low: number; targets: readonly string[]; next: number };
