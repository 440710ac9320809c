import type { RunningCount } from "../budget.ts";
import { numberComponents } from "../components.ts";
import { type Content, instantiatedBy, type RuntimeFlows } from "./runtime-flows.ts";

const nothing: RunningCount = { nodes: 0, instanceIds: 0 };

/**
 * Counts the nodes that a full start would run at most, in time that is linear in the flows: nested subflows can multiply a few
 * nodes to any number. Infinite if a subflow contains itself.
 */
export function countRunning(parsed: RuntimeFlows): RunningCount {
  const instantiated = new Map(Array.from(parsed.subflows, ([id, content]) => [id, subflowsIn(content, parsed)]));
  const components = numberComponents(instantiated);
  const counts = new Map<string, RunningCount>();
  // A subflow has a greater number than those that it contains.
  const ids = [...components.keys()].toSorted((one, other) => numberOf(one) - numberOf(other));
  for (const id of ids) {
    const contained = instantiated.get(id) ?? [];
    const isCyclic = contained.some((each) => numberOf(each) === numberOf(id));
    const content = parsed.subflows.get(id) as Content;
    counts.set(id, isCyclic ? { nodes: Infinity, instanceIds: Infinity } : countContent(content, contained, counts));
  }
  return [parsed.global, ...parsed.tabs.values()]
    .map((content) => countContent(content, subflowsIn(content, parsed), counts))
    .reduce(add, nothing);

  function numberOf(id: string): number {
    return components.get(id) as number;
  }
}

/** The subflows of the instances on a tab or in a subflow, one for each instance. */
function subflowsIn({ nodes }: Content, { subflows }: RuntimeFlows): string[] {
  return Array.from(nodes.values(), (node) => instantiatedBy(node) ?? "").filter((id) => subflows.has(id));
}

function countContent(
  { configs, nodes }: Content,
  contained: readonly string[],
  counts: ReadonlyMap<string, RunningCount>,
): RunningCount {
  return contained
    .map((id) => counts.get(id) as RunningCount)
    .map((count) => ({ nodes: count.nodes, instanceIds: count.instanceIds + count.nodes }))
    .reduce(add, { nodes: configs.size + nodes.size, instanceIds: 0 });
}

function add(one: RunningCount, other: RunningCount): RunningCount {
  return { nodes: one.nodes + other.nodes, instanceIds: one.instanceIds + other.instanceIds };
}
