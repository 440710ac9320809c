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

export type Losses = { readonly losesProcess: boolean; readonly losesMessages: boolean; readonly removed: number };

export function lossesOf({
  type,
  nodes,
  modules,
  diff,
}: {
  readonly type: DeploymentType;
  readonly nodes: readonly Pick<PlannedNode, "action">[];
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

export function changesModules(modules: readonly Pick<RequiredModule, "state">[]): boolean {
  return modules.some(({ state }) => state !== ModuleState.PRESENT);
}
