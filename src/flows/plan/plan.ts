import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, DeploymentType } from "../configuration.ts";
import { nameOf } from "../node-role.ts";
import { findMissingTypes, type MissingType } from "./missing-types.ts";
import { findRequiredModules, type RequiredModule } from "./required-modules.ts";
import { findRestarts, type Restarts } from "./restarts.ts";
import type { Place, RunningNode } from "./running-flows.ts";
import { findWarnings, type Warning } from "./warnings.ts";

/** What a deployment would do, without doing it. */
export type DeploymentPlan = {
  /** The nodes that it stops or starts, in the order in which they start; those that are only stopped come last. */
  readonly nodes: readonly PlannedNode[];
  /** If there are any, the runtime starts no node at all. */
  readonly missingTypes: readonly MissingType[];
  /** Modules that nodes load. The runtime starts no node if one is not installed. */
  readonly modules: readonly RequiredModule[];
  readonly warnings: readonly Warning[];
};

export type PlannedNode = {
  readonly id: string;
  readonly type: string;
  readonly name: string | undefined;
  /** The id of its tab, outside of subflow instances; empty for global configuration nodes. */
  readonly tab: string;
  /**
   * The ids of the subflow instances that contain it, outermost first. `id` is then that of the node in the subflow's
   * definition: it runs once in each instance.
   */
  readonly instances: readonly string[];
  readonly action: "stop" | "start" | "restart";
};

/** What a plan depends on besides the flows. */
export type RuntimeView = {
  /** The installed node types; undefined if they are not known, as while the runtime starts. */
  readonly knownTypes: ReadonlySet<string> | undefined;
  /** Whether it runs the current flows. If not, there is nothing to stop, and a deployment of any type starts all nodes. */
  readonly isRunning: boolean;
};

/**
 * Plans a deployment. `current` are the active flows, which the deployment replaces. Throws `limit_exceeded` if that exceeds the
 * budget.
 */
export function planDeployment(
  current: Configuration,
  next: Configuration,
  type: DeploymentType,
  { knownTypes, isRunning }: RuntimeView,
  budget: Budget = new Budget(),
): DeploymentPlan {
  const target = type === "reload" ? current : next;
  const restarts = isRunning
    ? findRestarts(current, target, type, knownTypes, budget)
    : findRestarts(nothing, target, "full", knownTypes, budget);
  budget.checkTime();
  return {
    nodes: planNodes(restarts, budget),
    missingTypes: findMissingTypes(target.flows, knownTypes),
    modules: findRequiredModules(target.flows, budget),
    warnings: findWarnings(current, target, budget),
  };
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

  function toPlanned(running: RunningNode, action: PlannedNode["action"]) {
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
