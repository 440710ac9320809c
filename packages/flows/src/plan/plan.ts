import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, DeploymentType } from "../configuration.ts";
import { changedCredentials } from "../credential-sets.ts";
import { escapeControls } from "../diff/format-value.ts";
import { nameOf } from "../nodes.ts";
import { type ModifiedNodes, findModified } from "./modified-nodes.ts";
import {
  type KnownModule,
  type MissingType,
  type PlannedModule,
  findMissingTypes,
  planModules,
} from "./requirements.ts";
import { type Place, type SimulatedNode, startAll, startFlows, stopFlows } from "./running-flows.ts";
import { countRunning, parseForRuntime } from "./runtime-flows.ts";
import { type Warning, findWarnings } from "./warnings.ts";

/** The effects that a deployment would have. */
export type DeploymentPlan = {
  /** The nodes that it stops or starts, in the order in which they start; nodes that only stop come last. */
  readonly nodes: readonly PlannedNode[];
  /** If there are any, the runtime starts no node at all. */
  readonly missingTypes: readonly MissingType[];
  /**
   * The modules that nodes need, and the modules that the deployment installs. The runtime starts no node if one is not
   * installed.
   */
  readonly modules: readonly PlannedModule[];
  readonly warnings: readonly Warning[];
};

export type PlannedNode = {
  readonly id: string;
  readonly type: string;
  readonly name: string | undefined;
  /** The id of its tab, outside of subflow instances; empty for global configuration nodes. */
  readonly tab: string;
  /**
   * The ids of the subflow instances that contain it, outermost first. `id` is then the node's id in the subflow's
   * definition: it runs once in each instance.
   */
  readonly instances: readonly string[];
  readonly action: "stop" | "start" | "restart";
};

/** The state of the runtime that a plan depends on. */
export type RuntimeView = {
  /** The installed node types; undefined if they are not known, as while the runtime starts. */
  readonly knownTypes: ReadonlySet<string> | undefined;
  /** True if it runs the current flows. If not, there is nothing to stop, and a deployment of any type starts all nodes. */
  readonly isRunning: boolean;
  /** The installed modules, and the modules that the deployment names. Defaults to none. */
  readonly modules?: readonly KnownModule[] | undefined;
};

/**
 * Plans a deployment. `current` are the active flows, which the deployment replaces. Throws `limit_exceeded` if that exceeds the
 * budget.
 */
export function planDeployment(
  current: Configuration,
  next: Configuration,
  requestedType: DeploymentType,
  { knownTypes, isRunning, modules = [] }: RuntimeView,
  budget: Budget = new Budget(),
): DeploymentPlan {
  // The code of modules is loaded by a new process.
  const type = modules.some(isInstalledByDeployment) ? "full" : requestedType;
  const target = requestedType === "reload" ? current : next;
  const restarts = isRunning
    ? findRestarts(current, target, type, knownTypes, budget)
    : findRestarts(nothing, target, "full", knownTypes, budget);
  budget.checkTime();
  return {
    nodes: planNodes(restarts, budget),
    missingTypes: findMissingTypes(target.flows, knownTypes),
    modules: planModules(target.flows, modules, budget),
    warnings: findWarnings(current, target, budget),
  };
}

function isInstalledByDeployment({ state, isDeclared }: KnownModule): boolean {
  return isDeclared && state !== "present";
}

const nothing: Configuration = { flows: [], credentials: new Map() };

/** A tab or subflow instance, with the nodes that start there. */
type StartPlace = {
  readonly children: Map<string, StartPlace>;
  readonly started: Map<string, { action: PlannedNode["action"] }>;
  /** The size of its path in the output. */
  readonly bytes: number;
};

/** The running nodes before and after a deployment are different objects: they are matched by their place. */
function planNodes({ stops, starts }: Restarts, budget: Budget): PlannedNode[] {
  const root = createStartPlace(0);
  const places = new Map<Place["instances"], StartPlace>();

  function find(place: Place): StartPlace {
    const known = places.get(place.instances);
    if (known !== undefined) {
      return known;
    }
    const parent = place.parent === undefined ? root : find(place.parent);
    const id = place.instances.at(-1) ?? place.tab;
    const found = parent.children.get(id) ?? createStartPlace(parent.bytes + sizeOf(id));
    parent.children.set(id, found);
    places.set(place.instances, found);
    return found;
  }

  function toPlanned(running: SimulatedNode, action: PlannedNode["action"]) {
    const { node, tab, instances } = running;
    const { id, type } = node;
    const name = nameOf(node);
    budget.addOutput(sizeOf(id) + sizeOf(type) + sizeOf(name ?? "") + find(running).bytes);
    return { id, type, name, tab: tab === "global" ? "" : tab, instances, action };
  }

  const planned: PlannedNode[] = [];
  for (const running of starts) {
    const node = toPlanned(running, "start");
    find(running).started.set(node.id, node);
    planned.push(node);
  }
  for (const running of stops) {
    const started = find(running).started.get(running.node.id);
    if (started === undefined) {
      planned.push(toPlanned(running, "stop"));
    } else {
      started.action = "restart";
    }
  }
  return planned;
}

function createStartPlace(bytes: number): StartPlace {
  return { children: new Map(), started: new Map(), bytes };
}

/** The nodes that a deployment stops and starts, in this order. A node in both lists restarts. */
export type Restarts = { readonly stops: readonly SimulatedNode[]; readonly starts: readonly SimulatedNode[] };

/**
 * Predicts which nodes the runtime stops and starts. It runs `current` as a full deployment has left it: not if a type is
 * missing. `knownTypes` are the installed types, if they are known. A node whose own code fails does not run, which is not
 * predicted. `reload` restarts all nodes of `next`, as `full` does. Throws `limit_exceeded` if too many nodes run.
 */
export function findRestarts(
  current: Configuration,
  next: Configuration,
  type: DeploymentType,
  knownTypes?: ReadonlySet<string>,
  budget: Budget = new Budget(),
): Restarts {
  const [before, after] = [parseForRuntime(current.flows), parseForRuntime(next.flows)];
  budget.checkRunning(countRunning(before));
  budget.checkRunning(countRunning(after));
  const canStart = ({ flows }: Configuration): boolean => findMissingTypes(flows, knownTypes).length === 0;
  const running = canStart(current) ? startAll(before, () => {}) : new Map();
  const isPartial = type === "nodes" || type === "flows";
  const modified = findModified(
    before,
    after,
    isPartial ? changedCredentials(current.credentials, next.credentials) : new Set(),
  );

  const stops: SimulatedNode[] = [];
  const starts: SimulatedNode[] = [];
  stopFlows(running, isPartial && !modified.isGlobal ? idsToStop(modified, type) : undefined, modified, (node) =>
    stops.push(node),
  );
  if (canStart(next)) {
    startFlows(running, after, modified.rewired, (node) => starts.push(node));
  }
  return { stops, starts };
}

function idsToStop({ changed, removed, linked, rewired }: ModifiedNodes, type: "nodes" | "flows"): ReadonlySet<string> {
  const ids = changed.union(removed);
  return type === "nodes" ? ids : ids.union(linked).union(rewired);
}

function formatModule({ name, version, state, installedVersion, nodeIds }: PlannedModule): string {
  const spec = `${name}${version === undefined ? "" : `@${version}`}`;
  const what =
    state === "upgraded" ? `${spec} instead of ${installedVersion ?? "another version"}` : `${spec}, ${state}`;
  return `module: ${what}${nodeIds.length === 0 ? "" : `, for ${nodeIds.join(", ")}`}`;
}

/**
 * Formats a plan for people: how many nodes stop and start, missing types and modules, and new warnings. Throws
 * `limit_exceeded` if the plan exceeds the budget.
 */
export function formatPlan(
  { nodes, missingTypes, modules, warnings }: DeploymentPlan,
  budget: Budget = new Budget(),
): string {
  const count = (action: PlannedNode["action"]): number => nodes.filter((node) => node.action === action).length;
  const introduced = warnings.filter(({ existing }) => !existing);
  const more = warnings.length - introduced.length;
  return [
    `nodes to start: ${count("start")}, to stop: ${count("stop")}, to restart: ${count("restart")}`,
    ...missingTypes.map(({ type, nodeIds }) => `missing type: ${type}, of ${nodeIds.join(", ")}; no node starts`),
    ...modules.map(formatModule),
    ...introduced.map(({ message }) => `warning: ${message}`),
    ...(more === 0 ? [] : [`warnings that the active flows have too: ${more}`]),
  ]
    .map((line) => {
      const escaped = `${escapeControls(line)}\n`;
      budget.addOutput(sizeOf(escaped));
      return escaped;
    })
    .join("");
}
