import { DeploymentErrorReason, DeploymentErrorSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Merge } from "./analysis/analysis.ts";
import type { NodeChanges } from "./analysis/node-changes.ts";
import { quoteInput } from "@flowgate/flows";
import { describeMismatch } from "../store/flow-store.ts";
import type { RevisionEntry } from "../store/revision.ts";
import { toRevision } from "./revision-message.ts";

const reasons = {
  version_mismatch: DeploymentErrorReason.VERSION_MISMATCH,
  precondition_failed: DeploymentErrorReason.PRECONDITION_FAILED,
  merge_conflict: DeploymentErrorReason.MERGE_CONFLICT,
  idempotency_key_reused: DeploymentErrorReason.IDEMPOTENCY_KEY_REUSED,
  proposal_stale: DeploymentErrorReason.PROPOSAL_STALE,
  proposal_closed: DeploymentErrorReason.PROPOSAL_CLOSED,
  proposal_changed: DeploymentErrorReason.PROPOSAL_CHANGED,
} as const;

type Details = { readonly active?: RevisionEntry | undefined; readonly changes?: NodeChanges | undefined };

function deploymentError(
  reason: keyof typeof reasons,
  message: string,
  { active, changes }: Details = {},
): FlowgateError {
  const value = {
    code: reasons[reason],
    message,
    ...(active !== undefined && { active: summarize(active) }),
    ...(changes !== undefined && { changes: changes.listed, changeCount: changes.count }),
  };
  return new FlowgateError(reason, message, { details: [{ desc: DeploymentErrorSchema, value }] });
}

/** Without the circumstances of the request, for which its reader may have no permission. */
function summarize(active: RevisionEntry): ReturnType<typeof toRevision> {
  return { ...toRevision(active, active.rev), tokenId: "", tokenName: "", clientAddress: "", requestId: "" };
}

export function preconditionFailed(message: string): FlowgateError {
  return deploymentError("precondition_failed", message);
}

export function idempotencyKeyReused(): FlowgateError {
  return deploymentError(
    "idempotency_key_reused",
    "idempotency key: a different request has used this key within the last day: use another key",
  );
}

/** Another revision than the expected one is active: describes it, and the changes made by it and by the request. */
export function conflict(
  activeRev: string,
  { isPrecondition }: { readonly isPrecondition: boolean },
  active: RevisionEntry | undefined,
  changes?: NodeChanges,
): FlowgateError {
  const message = describeMismatch(activeRev);
  return isPrecondition
    ? deploymentError("precondition_failed", message, { active, changes })
    : deploymentError("version_mismatch", `rev: ${message}`, { active, changes });
}

export function mergeConflict({ changes, conflictCount }: Merge, active: RevisionEntry | undefined): FlowgateError {
  const [{ nodeId = "", conflict: message = "" } = {}] = changes.listed;
  const others = conflictCount - 1;
  const more = others > 0 ? ` (and ${others} more)` : "";
  return deploymentError(
    "merge_conflict",
    `merge: node ${quoteInput(nodeId)}${more}: ${message}: read the active revision, resolve the conflicts and deploy again`,
    { active, changes },
  );
}

/** Another deployment has replaced the base of a proposal. */
export function proposalStale(id: string, activeRev: string): FlowgateError {
  return deploymentError("proposal_stale", `proposal ${id}: ${describeStale(activeRev)}`);
}

export function describeStale(activeRev: string): string {
  return `its base was replaced, the active revision is ${JSON.stringify(activeRev)}: propose the change again, based on that`;
}

/** `end` says how it has ended. */
export function proposalClosed(id: string, end: string): FlowgateError {
  return deploymentError(
    "proposal_closed",
    `proposal ${id}: it ${end}, and can't be approved, rejected or withdrawn any more`,
  );
}

export function proposalChanged(id: string, message: string): FlowgateError {
  return deploymentError("proposal_changed", `proposal ${id}: ${message}`);
}
