import { DeploymentErrorReason, DeploymentErrorSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../errors.ts";
import type { FlowStore, RevisionEntry } from "../store/store.ts";
import { toRevision } from "./revision-message.ts";

const reasons = {
  version_mismatch: DeploymentErrorReason.VERSION_MISMATCH,
  precondition_failed: DeploymentErrorReason.PRECONDITION_FAILED,
  idempotency_key_reused: DeploymentErrorReason.IDEMPOTENCY_KEY_REUSED,
} as const;

function deploymentError(reason: keyof typeof reasons, message: string, active?: RevisionEntry): FlowgateError {
  const value = {
    code: reasons[reason],
    message,
    ...(active !== undefined && { active: summarize(active) }),
  };
  return new FlowgateError(reason, message, { details: [{ desc: DeploymentErrorSchema, value }] });
}

/** Without the circumstances of the request, for which its reader may have no permission. */
function summarize(active: RevisionEntry): ReturnType<typeof toRevision> {
  return { ...toRevision(active, active.rev), clientAddress: "", requestId: "" };
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

/** Adds the active revision to the error of a commit. */
export async function withActiveRevision(
  { message }: FlowgateError,
  { isHeader }: { readonly isHeader: boolean },
  store: Pick<FlowStore, "active" | "findEntry">,
): Promise<FlowgateError> {
  const active = await store.findEntry(store.active().rev);
  return isHeader
    ? deploymentError("precondition_failed", message.replace(/^rev: /, "If-Match: "), active)
    : deploymentError("version_mismatch", message, active);
}
