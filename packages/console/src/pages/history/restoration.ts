import { Code, ConnectError } from "@connectrpc/connect";
import { DeploymentErrorSchema, DeploymentType, ErrorInfoSchema, type Revision, RevisionCause } from "@flowgate/client";

/** True if the last deployment can be undone: it has replaced another one, and did not undo one that failed. */
export function canUndo({ parent, cause }: Pick<Revision, "parent" | "cause">): boolean {
  return parent !== "" && cause !== RevisionCause.AUTOMATIC_UNDO;
}

/** By default an undo restarts what the undone deployment restarted, and a restore everything. */
export function defaultType(kind: "undo" | "restore", { deploymentType }: Revision): DeploymentType {
  const isPartial = deploymentType === DeploymentType.NODES || deploymentType === DeploymentType.FLOWS;
  return kind === "undo" && isPartial ? deploymentType : DeploymentType.FULL;
}

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
