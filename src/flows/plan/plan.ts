import type { Configuration, DeploymentType, FlowNode } from "../configuration.ts";
import { nameOf } from "../node-role.ts";
import { findMissingTypes, type MissingType } from "./missing-types.ts";
import { findRequiredModules, type RequiredModule } from "./required-modules.ts";
import { findRestarts } from "./restarts.ts";
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

/**
 * Plans a deployment. `current` are the flows that run now. `knownTypes` are the node types that are installed; undefined if
 * they are not known, as while the runtime starts.
 */
export function planDeployment(
  current: Configuration,
  next: Configuration,
  type: DeploymentType,
  knownTypes?: ReadonlySet<string>,
): DeploymentPlan {
  const target = type === "reload" ? current : next;
  return {
    nodes: planNodes(current, target, type, knownTypes),
    missingTypes: findMissingTypes(target.flows, knownTypes),
    modules: findRequiredModules(target.flows),
    warnings: findWarnings(current, target),
  };
}

function planNodes(
  current: Configuration,
  next: Configuration,
  type: DeploymentType,
  knownTypes: ReadonlySet<string> | undefined,
): PlannedNode[] {
  const { stops, starts } = findRestarts(current, next, type, knownTypes);
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
