import { Code, ConnectError } from "@connectrpc/connect";
import {
  type ConcurrentChange,
  DeploymentErrorReason,
  DeploymentErrorSchema,
  ErrorInfoSchema,
  type Revision,
} from "@flowgate/client";

export type Conflict = {
  readonly active: Revision;
  readonly changes: readonly ConcurrentChange[];
  /** The number of changes that are not listed. */
  readonly more: number;
  readonly canMerge: boolean;
};

/** Undefined if the error is something else. */
export function findConflict(error: unknown): Conflict | undefined {
  const [details] = ConnectError.from(error).findDetails(DeploymentErrorSchema);
  if (details?.active === undefined || !isConflict(details.code)) {
    return undefined;
  }
  const { active, changes, changeCount, code } = details;
  return {
    active,
    changes,
    more: Math.max(0, changeCount - changes.length),
    canMerge: code !== DeploymentErrorReason.MERGE_CONFLICT && changes.every(({ conflict }) => conflict === ""),
  };
}

function isConflict(code: DeploymentErrorReason): boolean {
  return (
    code === DeploymentErrorReason.VERSION_MISMATCH ||
    code === DeploymentErrorReason.PRECONDITION_FAILED ||
    code === DeploymentErrorReason.MERGE_CONFLICT
  );
}

export function needsApproval(error: unknown): boolean {
  return ConnectError.from(error)
    .findDetails(ErrorInfoSchema)
    .some(({ domain, reason }) => domain === "flowgate" && reason === "approval_required");
}

export function isNotPermitted(error: unknown): boolean {
  return ConnectError.from(error).code === Code.PermissionDenied;
}
