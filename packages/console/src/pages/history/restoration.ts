import { Code, ConnectError } from "@connectrpc/connect";
import {
  DeploymentErrorSchema,
  DeploymentType,
  ErrorInfoSchema,
  type FlowsDiff,
  ModuleState,
  NodeAction,
  NodeChange,
  NodeRole,
  type PlannedNode,
  type RequiredModule,
  type Revision,
  RevisionCause,
} from "@flowgate/client";

/** Whether the last deployment can be undone: it has replaced another one, and did not undo one that failed. */
export function canUndo({ parent, cause }: Pick<Revision, "parent" | "cause">): boolean {
  return parent !== "" && cause !== RevisionCause.AUTOMATIC_UNDO;
}

/** An undo restarts by default what the deployment did that it undoes, and a restore everything. */
export function defaultType(kind: "undo" | "restore", { deploymentType }: Revision): DeploymentType {
  const isPartial = deploymentType === DeploymentType.NODES || deploymentType === DeploymentType.FLOWS;
  return kind === "undo" && isPartial ? deploymentType : DeploymentType.FULL;
}

/** What is lost. */
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
  /** Those of the revision whose flows are deployed. */
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

/** Why a deployment was refused, as far as the page can help. */
export type Refusal =
  /** Another deployment was made in the meantime; `active` is its revision. */
  | { readonly kind: "conflict"; readonly active: Revision | undefined }
  /** A second person has to approve it. */
  | { readonly kind: "approval" }
  | { readonly kind: "other"; readonly error: unknown };

export function refusalOf(thrown: unknown): Refusal {
  const error = ConnectError.from(thrown);
  const [details] = error.findDetails(DeploymentErrorSchema);
  if (details !== undefined && error.code === Code.Aborted) {
    return { kind: "conflict", active: details.active };
  }
  const [info] = error.findDetails(ErrorInfoSchema);
  return info?.reason === "approval_required" ? { kind: "approval" } : { kind: "other", error };
}
