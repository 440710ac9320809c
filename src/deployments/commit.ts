import type { Merge } from "../flows/analysis/analysis.ts";
import { FlowgateError } from "../errors.ts";
import type { RevisionDraft } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";
import { inSpan } from "../telemetry/trace.ts";
import {
  type Change,
  type CommitOptions,
  type Committed,
  type Content,
  type DeploymentCall,
  isMismatch,
  toDraft,
} from "./deployment.ts";
import { conflict, mergeConflict } from "./errors.ts";
import { keepCredentials } from "./kept-credentials.ts";

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
    if ((expectedRev ?? active.rev) === active.rev) {
      await orRepeated(() => authorize(active, content, call, options), call, store);
    }
    // The deadline may have passed while the change was prepared.
    signal.throwIfAborted();
    try {
      return { revision: await commitDraft(toDraft(change, content, call, expectedRev ?? active.rev), call, options) };
    } catch (error) {
      if (!isMismatch(error)) {
        throw error;
      }
      if (expectedRev !== undefined) {
        return mergeOrReject({ change, call, expectedRev }, options);
      }
    }
  }
}

/** Throws if the caller may not make this change. Whatever the operation is, its difference to the replaced revision counts. */
async function authorize(
  active: Revision,
  content: Content,
  { authorize, source, signal }: DeploymentCall,
  { analysis }: CommitOptions,
): Promise<void> {
  authorize?.(await analysis.findChangedContainers({ base: active, target: content }, { source, signal }));
}

function commitDraft(
  draft: RevisionDraft,
  { trace, signal }: DeploymentCall,
  { store }: CommitOptions,
): Promise<Revision> {
  const attributes = { "flowgate.deployment.type": draft.deploymentType };
  return inSpan(trace, "store.commit", attributes, () => store.commit(draft, signal));
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

type Mismatched = {
  readonly change: Change;
  readonly call: DeploymentCall;
  /** The revision that is not active any more. */
  readonly expectedRev: string;
};

/** Merges a change with the revisions that were committed after the expected one, or throws an error that describes them. */
async function mergeOrReject(mismatched: Mismatched, options: CommitOptions): Promise<Committed> {
  const { change, call } = mismatched;
  const { store } = options;
  for (;;) {
    const active = store.active();
    const merge = await compare(mismatched, options);
    if (!call.merge || merge === undefined) {
      throw conflict(active.rev, call.conditions, await store.findEntry(active.rev), merge?.changes);
    }
    if (merge.merged === undefined) {
      throw mergeConflict(merge, await store.findEntry(active.rev));
    }
    const content = await keepCredentials(active, { ...merge.merged, submitted: merge.submitted }, store);
    await authorize(active, content, call, options);
    call.signal.throwIfAborted();
    try {
      const draft = { ...toDraft(change, content, call, active.rev), cause: "merge" } as const;
      return {
        revision: await commitDraft(draft, call, options),
        merge: { rev: active.rev, changes: merge.changes },
      };
    } catch (error) {
      // Another commit precedes this one again.
      if (!isMismatch(error)) {
        throw error;
      }
    }
  }
}

/**
 * Undefined if the expected revision is not in the history, the change is not one of its flows, or they can only be described, which
 * exceeds a limit.
 */
async function compare(
  { change, call: { merge, source, signal }, expectedRev }: Mismatched,
  { store, analysis }: CommitOptions,
): Promise<(Merge & Pick<Content, "submitted">) | undefined> {
  const base = change.cause === "deployment" ? await store.find(expectedRev) : undefined;
  if (base === undefined) {
    return undefined;
  }
  const ours = await change.apply(base);
  const versions = { base, ours, theirs: store.active() };
  try {
    return { ...(await analysis.merge(versions, { source, signal })), submitted: ours.submitted };
  } catch (error) {
    if (!merge && error instanceof FlowgateError && error.reason === "limit_exceeded") {
      return undefined;
    }
    throw error;
  }
}
