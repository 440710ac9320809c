import type { Configuration, DeploymentType, FlowNode } from "../configuration.ts";
import { nameOf } from "../node-role.ts";
import { findMissingTypes, type MissingType } from "./missing-types.ts";
import { findRequiredModules, type RequiredModule } from "./required-modules.ts";
import { findRestarts, type Restarts } from "./restarts.ts";
import type { RunningNode } from "./running-flows.ts";
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

/** Plans a deployment. `current` are the active flows, which the deployment replaces. */
export function planDeployment(
  current: Configuration,
  next: Configuration,
  type: DeploymentType,
  { knownTypes, isRunning }: RuntimeView,
): DeploymentPlan {
  const target = type === "reload" ? current : next;
  const restarts = isRunning
    ? findRestarts(current, target, type, knownTypes)
    : findRestarts(nothing, target, "full", knownTypes);
  return {
    nodes: planNodes(restarts),
    missingTypes: findMissingTypes(target.flows, knownTypes),
    modules: findRequiredModules(target.flows),
    warnings: findWarnings(current, target),
  };
}

const nothing: Configuration = { flows: [], credentials: new Map() };

function planNodes({ stops, starts }: Restarts): PlannedNode[] {
  const stopped = new Map(stops.map((node) => [keyOf(node), node]));
  const started = new Map(starts.map((node) => [keyOf(node), node]));
  return [
    ...Array.from(started, ([key, node]) => toPlanned(node, stopped.has(key) ? "restart" : "start")),
    ...[...stopped].filter(([key]) => !started.has(key)).map(([, node]) => toPlanned(node, "stop")),
  ];
}

function keyOf({ tab, instances, node }: RunningNode): string {
  return JSON.stringify([tab, ...instances, node.id]);
}

function toPlanned({ node, tab, instances }: RunningNode, action: PlannedNode["action"]): PlannedNode {
  return { ...identify(node), tab: tab === "global" ? "" : tab, instances, action };
}

function identify(node: FlowNode): Pick<PlannedNode, "id" | "type" | "name"> {
  return { id: node.id, type: node.type, name: nameOf(node) };
}
