import type { DeploymentCall } from "./call.ts";
import type { Change } from "./change.ts";
import type { Committed, CommitOptions } from "./committed.ts";
import { isMismatch, toDraft } from "./draft.ts";
import { keepCredentials } from "./kept-credentials.ts";
import { mergeOrReject } from "./merge.ts";

/**
 * Commits a change. Without an expected revision, a change that loses a race is applied again, to the revision that won. With one,
 * it is merged with that revision if the caller asks for it, and rejected otherwise: with `version_mismatch`,
 * `precondition_failed` or `merge_conflict`.
 */
export async function commitChange(change: Change, call: DeploymentCall, options: CommitOptions): Promise<Committed> {
  const { store } = options;
  const { conditions, signal } = call;
  const expectedRev = await orRepeated(() => conditions.evaluate(store.active()), call, store);
  for (;;) {
    const active = store.active();
    const applied = await orRepeated(() => change.apply(active), call, store);
    const content = await keepCredentials(active, applied, store);
    // The deadline may have passed while the change was prepared.
    signal.throwIfAborted();
    try {
      const draft = toDraft(change, content, call, expectedRev ?? active.rev);
      return { revision: await store.commit(draft, signal) };
    } catch (error) {
      if (!isMismatch(error)) {
        throw error;
      }
      if (expectedRev !== undefined) {
        return mergeOrReject({ change, call, expectedRev, mismatch: error }, options);
      }
    }
  }
}

/** If this step of a commit fails, and the idempotency key was used before, the error is that of a repeated request. */
async function orRepeated<T>(
  step: () => T | Promise<T>,
  { origin, idempotencyKey }: DeploymentCall,
  store: CommitOptions["store"],
): Promise<T> {
  try {
    return await step();
  } catch (error) {
    // A repeated change may not be applicable to its own result, nor does its condition hold any more.
    const repeated = idempotencyKey === undefined ? undefined : await store.findRepeated(origin.by, idempotencyKey);
    throw repeated ?? error;
  }
}
