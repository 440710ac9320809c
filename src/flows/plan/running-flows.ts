import type { FlowNode } from "../configuration.ts";
import type { ModifiedNodes } from "./modified-nodes.ts";
import { type Content, instantiatedBy, type RuntimeFlows, toKey } from "./runtime-flows.ts";
import { canRewire, canStart } from "./subflow-ports.ts";

/** A tab, or a subflow instance on it. */
export type Place = {
  /** The tab; "global" for global configuration nodes. */
  readonly tab: string;
  /** The ids of the subflow instances, outermost first. All nodes of the place share the array, and no other place has it. */
  readonly instances: readonly string[];
  /** What contains the instance; undefined for a tab. */
  readonly parent: Place | undefined;
};

/** A node as it runs: in a subflow there is one for each instance. */
export type RunningNode = Place & { readonly node: FlowNode };

/** What the runtime has started on a tab, or of a subflow instance (`Flow` in @node-red/runtime/lib/flows/Flow.js). */
type RunningFlow = Place & {
  /** Running nodes by id, subflow instances included. */
  readonly nodes: Map<string, RunningNode>;
  /** The content of running instances. One that could not start has an empty content, and is not tried again. */
  readonly subflows: Map<string, RunningFlow>;
};

type RunningFlows = Map<string, RunningFlow>;

const globalId = "global";

/** The running nodes after a full start. */
export function startAll(parsed: RuntimeFlows, onStart: (node: RunningNode) => void): RunningFlows {
  const running: RunningFlows = new Map();
  startFlows(running, parsed, new Set(), onStart);
  return running;
}

/** Stops what a deployment stops before it starts anything. `ids` are the nodes to stop; undefined stops everything. */
export function stopFlows(
  running: RunningFlows,
  ids: ReadonlySet<string> | undefined,
  { added, removed, tabs }: ModifiedNodes,
  onStop: (node: RunningNode) => void,
): void {
  for (const [id, flow] of running) {
    const isReplaced = ids === undefined || tabs.has(id) || added.has(id) || removed.has(id);
    stopNodes(flow, isReplaced ? new Set(flow.nodes.keys()) : ids, onStop);
    if (isReplaced) {
      running.delete(id);
    }
  }
}

/** Starts what is not running. `rewired` nodes that run are wired anew, which can fail. */
export function startFlows(
  running: RunningFlows,
  parsed: RuntimeFlows,
  rewired: ReadonlySet<string>,
  onStart: (node: RunningNode) => void,
): void {
  const contents: [string, Content][] = [[globalId, parsed.global], ...parsed.tabs];
  for (const [id, content] of contents) {
    if (!content.definition?.["disabled"] && !running.has(id)) {
      running.set(id, { tab: id, instances: [], parent: undefined, nodes: new Map(), subflows: new Map() });
    }
  }
  const byId = new Map(contents);
  for (const [id, flow] of running) {
    const content = byId.get(id);
    if (content !== undefined) {
      startContent(flow, content, { parsed, rewired, onStart });
    }
  }
}

function stopNodes(flow: RunningFlow, ids: ReadonlySet<string>, onStop: (node: RunningNode) => void): void {
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
  readonly onStart: (node: RunningNode) => void;
};

/** Returns whether the runtime gets to the end. If not, the nodes that it has started before keep running. */
function startContent(flow: RunningFlow, content: Content, start: Start): boolean {
  const { parsed, rewired, onStart } = start;
  const run = (node: FlowNode): void => {
    const running = { node, tab: flow.tab, instances: flow.instances, parent: flow.parent };
    flow.nodes.set(node.id, running);
    onStart(running);
  };

  if (!startConfigs(flow, content.configs, run)) {
    return false;
  }
  for (const id of rewired) {
    if (flow.nodes.has(id) && !rewire(flow, content, id, parsed)) {
      return false;
    }
  }
  for (const node of content.nodes.values()) {
    if (node["d"] === true) {
      continue;
    }
    const subflow = instantiatedBy(node);
    if (subflow === undefined) {
      if (!flow.nodes.has(node.id)) {
        run(node);
      }
    } else if (!flow.subflows.has(node.id) && startInstance(flow, node, parsed.subflows.get(subflow), start)) {
      run(node);
    }
  }
  return true;
}

/** How often the runtime puts off a configuration node that refers to one that does not run. */
const maxAttempts = 100;

/** Starts configuration nodes after those that they refer to. Returns false if they form a cycle. */
function startConfigs(
  { nodes }: RunningFlow,
  configs: ReadonlyMap<string, FlowNode>,
  run: (node: FlowNode) => void,
): boolean {
  const queue = [...configs.values()].filter((node) => !nodes.has(node.id) && node["d"] !== true);
  const attempts = new Map<string, number>();
  for (let next = 0; next < queue.length; next++) {
    const node = queue[next] as FlowNode;
    if (!dependsOnStopped(node, configs, nodes)) {
      run(node);
      continue;
    }
    const count = (attempts.get(node.id) ?? 0) + 1;
    if (count === maxAttempts) {
      return false;
    }
    attempts.set(node.id, count);
    queue.push(node);
  }
  return true;
}

function dependsOnStopped(
  node: FlowNode,
  configs: ReadonlyMap<string, FlowNode>,
  running: ReadonlyMap<string, RunningNode>,
): boolean {
  return Object.keys(node).some((property) => {
    if (property === "id" || property === "wires" || property === "_users") {
      return false;
    }
    const config = configs.get(toKey(node[property]));
    return config !== undefined && config["d"] !== true && !running.has(config.id);
  });
}

function rewire(flow: RunningFlow, content: Content, id: string, parsed: RuntimeFlows): boolean {
  const node = content.nodes.get(id);
  if (node === undefined) {
    return false;
  }
  const subflow = parsed.subflows.get(instantiatedBy(node) ?? "");
  return subflow === undefined || canRewire(subflow);
}

function startInstance(parent: RunningFlow, instance: FlowNode, subflow: Content | undefined, start: Start): boolean {
  const { tab, instances, subflows } = parent;
  const flow = { tab, instances: [...instances, instance.id], parent, nodes: new Map(), subflows: new Map() };
  subflows.set(instance.id, flow);
  return (
    subflow !== undefined &&
    canStart(subflow, instance) &&
    startContent(flow, subflow, { ...start, rewired: new Set() })
  );
}
