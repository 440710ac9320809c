import {
  DeploymentType,
  type FlowsDiff,
  ModuleState,
  NodeAction,
  NodeChange,
  NodeRole,
  type PlannedNode,
  type RequiredModule,
} from "@flowgate/client";

/** What a deployment loses. */
export type Losses = {
  /** All that is in memory. */
  readonly losesProcess: boolean;
  /** What is in memory of nodes that restart, apart from their context. */
  readonly losesMessages: boolean;
  /** The nodes and tabs that are removed, with their context. */
  readonly removed: number;
};

export function lossesOf({
  type,
  nodes,
  modules,
  diff,
}: {
  readonly type: DeploymentType;
  readonly nodes: readonly Pick<PlannedNode, "action">[];
  /** Those that the flows need. */
  readonly modules: readonly Pick<RequiredModule, "state">[];
  readonly diff: Pick<FlowsDiff, "containers"> | undefined;
}): Losses {
  const losesProcess = type === DeploymentType.FULL || changesModules(modules);
  return {
    losesProcess,
    losesMessages: !losesProcess && nodes.some(({ action }) => action !== NodeAction.START),
    removed: (diff?.containers ?? [])
      .flatMap((container) => container.nodes)
      .filter(({ change, role }) => change === NodeChange.REMOVED && role !== NodeRole.GROUP).length,
  };
}

/** Whether modules are installed or replaced, with which all nodes restart. */
export function changesModules(modules: readonly Pick<RequiredModule, "state">[]): boolean {
  return modules.some(({ state }) => state !== ModuleState.PRESENT);
}
