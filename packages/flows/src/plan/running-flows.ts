import type { FlowNode } from "../configuration.ts";
import type { ModifiedNodes } from "./modified-nodes.ts";
import { type FlowContent, type RuntimeFlows, instantiatedBy, toKey } from "./runtime-flows.ts";
import { type Ports, readPorts } from "./wires.ts";

/** A tab, or a subflow instance on it. */
export type Place = {
  /** The tab; "global" for global configuration nodes. */
  readonly tab: string;
  /** The ids of the subflow instances, outermost first. All nodes of the place share the array, and no other place has it. */
  readonly instances: readonly string[];
  /** The container of the instance; undefined for a tab. */
  readonly parent: Place | undefined;
};

/** A node as it runs: in a subflow there is one for each instance. */
export type SimulatedNode = Place & { readonly node: FlowNode };

/**
 * The nodes that the runtime has started on a tab or in a subflow instance (`Flow` in
 * @node-red/runtime/lib/flows/Flow.js).
 */
type RunningFlow = Place & {
  /** Running nodes by id, subflow instances included. */
  readonly nodes: Map<string, SimulatedNode>;
  /** The content of running instances. One that could not start has an empty content, and is not tried again. */
  readonly subflows: Map<string, RunningFlow>;
};

type RunningFlows = Map<string, RunningFlow>;

const globalId = "global";

/** The running nodes after a full start. */
export function startAll(parsed: RuntimeFlows, onStart: (node: SimulatedNode) => void): RunningFlows {
  const running: RunningFlows = new Map();
  startFlows(running, parsed, new Set(), onStart);
  return running;
}

/** Stops nodes before anything starts. `ids` are the nodes to stop; undefined stops everything. */
export function stopFlows(
  running: RunningFlows,
  ids: ReadonlySet<string> | undefined,
  { added, removed, tabs }: ModifiedNodes,
  onStop: (node: SimulatedNode) => void,
): void {
  for (const [id, flow] of running) {
    const isReplaced = ids === undefined || tabs.has(id) || added.has(id) || removed.has(id);
    stopNodes(flow, isReplaced ? new Set(flow.nodes.keys()) : ids, onStop);
    if (isReplaced) {
      running.delete(id);
    }
  }
}

/** Starts nodes that are not running. Running `rewired` nodes are wired anew, which can fail. */
export function startFlows(
  running: RunningFlows,
  parsed: RuntimeFlows,
  rewired: ReadonlySet<string>,
  onStart: (node: SimulatedNode) => void,
): void {
  const contents: [string, FlowContent][] = [[globalId, parsed.global], ...parsed.tabs];
  for (const [id, content] of contents) {
    if (!content.definition?.["disabled"] && !running.has(id)) {
      running.set(id, { tab: id, instances: [], parent: undefined, nodes: new Map(), subflows: new Map() });
    }
  }
  const templates = new Map<FlowContent, Template>();
  const start: Start = {
    parsed,
    rewired,
    onStart,
    readTemplate(content) {
      const template = templates.get(content) ?? createTemplate(content, parsed);
      templates.set(content, template);
      return template;
    },
  };
  const byId = new Map(contents);
  for (const [id, flow] of running) {
    const content = byId.get(id);
    if (content !== undefined) {
      startContent(flow, content, orderConfigs(content.configs, flow.nodes), start);
    }
  }
}

function stopNodes(flow: RunningFlow, ids: ReadonlySet<string>, onStop: (node: SimulatedNode) => void): void {
  // The smaller set is visited, since most deployments stop few nodes.
  const stopped = ids.size < flow.nodes.size ? [...ids] : [...flow.nodes.keys()].filter((id) => ids.has(id));
  for (const id of stopped) {
    const node = flow.nodes.get(id);
    if (node === undefined) {
      continue;
    }
    flow.nodes.delete(id);
    onStop(node);
    const content = flow.subflows.get(id);
    flow.subflows.delete(id);
    if (content !== undefined) {
      stopNodes(content, new Set(content.nodes.keys()), onStop);
    }
  }
}

type Start = {
  readonly parsed: RuntimeFlows;
  readonly rewired: ReadonlySet<string>;
  readonly onStart: (node: SimulatedNode) => void;
  readonly readTemplate: (content: FlowContent) => Template;
};

/** Returns whether the runtime gets to the end. If not, the nodes that it has started before keep running. */
function startContent(flow: RunningFlow, content: FlowContent, configs: ConfigOrder, start: Start): boolean {
  const run = (node: FlowNode): void => {
    const running = { node, tab: flow.tab, instances: flow.instances, parent: flow.parent };
    flow.nodes.set(node.id, running);
    start.onStart(running);
  };

  configs.started.forEach(run);
  if (!configs.isComplete || !canRewireAll(flow, content, start)) {
    return false;
  }
  for (const { node, isInstance, subflow } of start.readTemplate(content).nodes) {
    if (
      isInstance ? !flow.subflows.has(node.id) && startInstance(flow, node, subflow, start) : !flow.nodes.has(node.id)
    ) {
      run(node);
    }
  }
  return true;
}

/** The smaller set is visited, since most deployments rewire few nodes. */
function canRewireAll({ nodes }: RunningFlow, content: FlowContent, { parsed, rewired, readTemplate }: Start): boolean {
  const [few, many] = rewired.size < nodes.size ? [rewired, nodes] : [nodes, rewired];
  return few.keys().every((id) => !many.has(id) || canRewire(content.nodes.get(id)));

  function canRewire(node: FlowNode | undefined): boolean {
    const subflow = node && parsed.subflows.get(instantiatedBy(node) ?? "");
    return node !== undefined && (subflow === undefined || readTemplate(subflow).ports.canRewire);
  }
}

function startInstance(
  parent: RunningFlow,
  instance: FlowNode,
  subflow: FlowContent | undefined,
  start: Start,
): boolean {
  const { tab, instances, subflows } = parent;
  const flow = { tab, instances: [...instances, instance.id], parent, nodes: new Map(), subflows: new Map() };
  subflows.set(instance.id, flow);
  if (subflow === undefined) {
    return false;
  }
  const { ports, configs } = start.readTemplate(subflow);
  return ports.canStart(instance) && startContent(flow, subflow, configs, { ...start, rewired: new Set() });
}

/** The part common to all instances of a subflow, determined once. */
type Template = {
  /** The start order of configuration nodes in a new instance. */
  readonly configs: ConfigOrder;
  /** The enabled nodes. `subflow` is undefined if it does not exist. */
  readonly nodes: readonly {
    readonly node: FlowNode;
    readonly isInstance: boolean;
    readonly subflow: FlowContent | undefined;
  }[];
  readonly ports: Ports;
};

function createTemplate(content: FlowContent, { subflows }: RuntimeFlows): Template {
  const nodes = [...content.nodes.values()].filter((node) => node["d"] !== true);
  return {
    configs: orderConfigs(content.configs, new Set()),
    nodes: nodes.map((node) => {
      const id = instantiatedBy(node);
      return { node, isInstance: id !== undefined, subflow: id === undefined ? undefined : subflows.get(id) };
    }),
    ports: readPorts(content),
  };
}

/**
 * The number of visits after which the runtime gives up on a configuration node that refers to one that does not run.
 */
const maxVisits = 100;

type ConfigOrder = {
  /** The nodes that start, in this order. */
  readonly started: readonly FlowNode[];
  /** True if the runtime starts all of them. If not, their references form a cycle, or a chain in an unfavourable order. */
  readonly isComplete: boolean;
};

/**
 * Predicts how the runtime starts the configuration nodes of a tab or subflow that are not `running`. It visits them in
 * rounds and starts each node whose references run, including references started earlier in the round. A node that has
 * to wait for the 100th time ends the start. Each node's round is computed from its references' rounds, without
 * simulating them.
 */
function orderConfigs(configs: ReadonlyMap<string, FlowNode>, running: { has(id: string): boolean }): ConfigOrder {
  const waiting = [...configs.values()].filter((node) => !running.has(node.id) && node["d"] !== true);
  const positions = new Map(waiting.map(({ id }, index) => [id, index]));
  const rounds = waiting.map(() => 1);
  const unmet = waiting.map(() => 0);
  const dependents = waiting.map((): number[] => []);
  for (const [position, node] of waiting.entries()) {
    for (const id of new Set(referencesOf(node))) {
      const dependency = positions.get(id);
      if (dependency !== undefined) {
        unmet[position] = (unmet[position] as number) + 1;
        dependents[dependency]?.push(position);
      }
    }
  }

  const met = [...unmet.keys()].filter((position) => unmet[position] === 0);
  for (const position of met) {
    for (const dependent of dependents[position] as number[]) {
      const round = (rounds[position] as number) + (position < dependent ? 0 : 1);
      rounds[dependent] = Math.max(rounds[dependent] as number, round);
      unmet[dependent] = (unmet[dependent] as number) - 1;
      if (unmet[dependent] === 0) {
        met.push(dependent);
      }
    }
  }

  const roundOf = (position: number): number => (unmet[position] === 0 ? (rounds[position] as number) : Infinity);
  const failed = waiting.findIndex((_, position) => roundOf(position) > maxVisits);
  const isStarted = (position: number): boolean => {
    const round = roundOf(position);
    return round < maxVisits || (round === maxVisits && (failed === -1 || position < failed));
  };
  const started = [...waiting.keys()].filter(isStarted).toSorted((one, other) => roundOf(one) - roundOf(other));
  return { started: started.map((position) => waiting[position] as FlowNode), isComplete: failed === -1 };
}

function referencesOf(node: FlowNode): string[] {
  return Object.keys(node)
    .filter((property) => property !== "id" && property !== "wires" && property !== "_users")
    .map((property) => toKey(node[property]));
}
