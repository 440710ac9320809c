/**
 * Numbers the strongly connected components of a graph: an edge lies on a cycle exactly when both its ends
 * have the same number. Tarjan's algorithm, with a stack of its own: a chain may be as long as a request.
 */
export function numberComponents(edges: ReadonlyMap<string, readonly string[]>): ReadonlyMap<string, number> {
  const components = new Map<string, number>();
  const visits = new Map<string, Visit>();
  const unassigned: string[] = [];
  let count = 0;

  function visit(node: string): Visit {
    const made = { node, order: visits.size, low: visits.size, targets: edges.get(node) ?? [], next: 0 };
    visits.set(node, made);
    unassigned.push(node);
    return made;
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
