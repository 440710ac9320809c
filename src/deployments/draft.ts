import { FlowgateError } from "../errors.ts";
import type { RevisionDraft } from "../store/flow-store.ts";
import type { DeploymentCall } from "./call.ts";
import type { Change, Content } from "./change.ts";
import { fingerprint } from "./fingerprint.ts";

/** The revision that a change makes. */
export function toDraft(
  change: Change,
  {
    flows,
    credentials,
    kept,
    restoredRev,
    deploymentType = change.deploymentType,
  }: Content & Pick<RevisionDraft, "kept">,
  { origin, message, idempotencyKey, waitMs, undoOnFailure }: DeploymentCall,
  parent: string,
): RevisionDraft {
  return {
    ...origin,
    parent,
    cause: change.cause,
    deploymentType,
    flows,
    credentials,
    kept,
    restoredRev,
    message,
    probationMs: undoOnFailure ? waitMs : undefined,
    idempotencyKey:
      idempotencyKey === undefined ? undefined : { key: idempotencyKey, fingerprint: fingerprint(change) },
  };
}

/** Whether the parent of a draft was not the active revision. */
export function isMismatch(error: unknown): error is FlowgateError {
  return error instanceof FlowgateError && error.reason === "version_mismatch";
}
