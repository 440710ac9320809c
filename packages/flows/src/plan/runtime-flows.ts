import type { JsonValue } from "../json.ts";
import type { RunningCount } from "../budget.ts";
import { numberComponents } from "../components.ts";
import type { FlowNode } from "../configuration.ts";
import { hasPosition, subflowOf } from "../nodes.ts";

/** Flows as the runtime sees them (`parseConfig` in @node-red/runtime/lib/flows/util.js). */
export type RuntimeFlows = {
  /** All nodes by id, in the order in which the runtime visits them. */
  readonly nodes: ReadonlyMap<string, FlowNode>;
  /** The tabs, including tabs that exist only as the `z` of nodes. */
  readonly tabs: ReadonlyMap<string, FlowContent>;
  readonly subflows: ReadonlyMap<string, FlowContent>;
  /** The content of no tab and no subflow. */
  readonly global: FlowContent;
};

/** The nodes on a tab or in a subflow. */
export type FlowContent = {
  /** The tab or subflow; undefined if it does not exist. */
  readonly definition: FlowNode | undefined;
  /** Configuration nodes. */
  readonly configs: Map<string, FlowNode>;
  /** Nodes with coordinates, except groups. */
  readonly nodes: Map<string, FlowNode>;
};

export function parseForRuntime(flows: readonly FlowNode[]): RuntimeFlows {
  const nodes = inVisitingOrder(flows);
  const contentOf = (type: string): Map<string, FlowContent> =>
    new Map(
      flows
        .filter((node) => node.type === type)
        .map((definition) => [definition.id, createContent(definition)] as const),
    );
  const tabs = contentOf("tab");
  const subflows = contentOf("subflow");
  const global = createContent(undefined);
  const contents = flows.filter(({ type }) => type !== "tab" && type !== "subflow" && type !== "group");

  const strays: FlowNode[] = [];
  for (const node of contents) {
    const container = tabs.get(containerKey(node)) ?? subflows.get(containerKey(node));
    if (container === undefined && node["z"]) {
      strays.push(node);
    }
    if (hasPosition(node)) {
      container?.nodes.set(node.id, node);
    } else {
      (container ?? global).configs.set(node.id, node);
    }
  }
  // The runtime creates the tab that such a node refers to. A configuration node is then on that tab, and global too.
  for (const node of strays) {
    const tab = tabs.get(containerKey(node)) ?? createContent(undefined);
    tabs.set(containerKey(node), tab);
    (hasPosition(node) ? tab.nodes : tab.configs).set(node.id, node);
  }
  return { nodes, tabs, subflows, global };
}

/** The id of the subflow that the runtime creates for this node instead of a node. */
export function instantiatedBy(node: FlowNode): string | undefined {
  return subflowOf(node) ?? (node["subflow"] ? toKey(node["subflow"]) : undefined);
}

export function containerKey(node: FlowNode): string {
  return toKey(node["z"]);
}

/** The name under which a value finds a member of an object, as `object[value]` does. */
export function toKey(value: JsonValue | undefined): string {
  if (Array.isArray(value)) {
    return value.map((element) => (element === null ? "" : toKey(element))).join(",");
  }
  return typeof value === "object" && value !== null ? "[object Object]" : String(value);
}

/** Objects have members with integer names first, which the runtime's results depend on. */
function inVisitingOrder(flows: readonly FlowNode[]): Map<string, FlowNode> {
  const nodes = Object.create(null) as Record<string, FlowNode>;
  for (const node of flows) {
    nodes[node.id] = node;
  }
  return new Map(Object.entries(nodes));
}

function createContent(definition: FlowNode | undefined): FlowContent {
  return { definition, configs: new Map(), nodes: new Map() };
}

const nothing: RunningCount = { nodes: 0, instanceIds: 0 };

/**
 * Counts the nodes that a full start would run at most, in time that is linear in the flows: nested subflows can multiply a few
 * nodes to any number. Infinite if a subflow contains itself.
 */
export function countRunning(parsed: RuntimeFlows): RunningCount {
  const instantiated = new Map(Array.from(parsed.subflows, ([id, content]) => [id, subflowsIn(content, parsed)]));
  const components = numberComponents(instantiated);
  const counts = new Map<string, RunningCount>();
  // A subflow has a greater number than the subflows that it contains.
  const ids = [...components.keys()].toSorted((one, other) => numberOf(one) - numberOf(other));
  for (const id of ids) {
    const contained = instantiated.get(id) ?? [];
    const isCyclic = contained.some((each) => numberOf(each) === numberOf(id));
    const content = parsed.subflows.get(id) as FlowContent;
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
function subflowsIn({ nodes }: FlowContent, { subflows }: RuntimeFlows): string[] {
  return Array.from(nodes.values(), (node) => instantiatedBy(node) ?? "").filter((id) => subflows.has(id));
}

function countContent(
  { configs, nodes }: FlowContent,
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
