import { FlowgateError } from "../errors.ts";
import type { FlowStore, Revision } from "../store/store.ts";
import type { Change } from "./change.ts";
import type { DeploymentCall } from "./deployer.ts";
import { fingerprint } from "./fingerprint.ts";

/**
 * Commits a change, and resolves with the new revision. If no revision is expected to be active, a change that another
 * commit precedes is applied to that one.
 */
export async function commitChange(
  change: Change,
  { origin, conditions, message, idempotencyKey, waitMs, undoOnFailure, signal }: DeploymentCall,
  store: Pick<FlowStore, "active" | "commit">,
): Promise<Revision> {
  const { cause, deploymentType } = change;
  const expectedRev = conditions.evaluate(store.active());
  for (;;) {
    const active = store.active();
    const { flows, credentials, restoredRev } = await change.apply(active);
    // The deadline may have passed while the change was prepared.
    signal.throwIfAborted();
    try {
      return await store.commit(
        {
          ...origin,
          parent: expectedRev ?? active.rev,
          cause,
          deploymentType,
          flows,
          credentials,
          restoredRev,
          message,
          probationMs: undoOnFailure ? waitMs : undefined,
          idempotencyKey:
            idempotencyKey === undefined ? undefined : { key: idempotencyKey, fingerprint: fingerprint(change) },
        },
        signal,
      );
    } catch (error) {
      if (expectedRev === undefined && isMismatch(error)) {
        continue;
      }
      throw error;
    }
  }
}

/** Whether the parent of a draft was not the active revision. */
export function isMismatch(error: unknown): error is FlowgateError {
  return error instanceof FlowgateError && error.reason === "version_mismatch";
}
