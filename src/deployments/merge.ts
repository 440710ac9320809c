import type { Merge } from "../analysis/analysis.ts";
import { FlowgateError } from "../errors.ts";
import type { DeploymentCall } from "./call.ts";
import type { Change, Content } from "./change.ts";
import type { Committed, CommitOptions } from "./committed.ts";
import { isMismatch, toDraft } from "./draft.ts";
import { conflict, mergeConflict } from "./errors.ts";
import { keepCredentials } from "./kept-credentials.ts";

type Mismatched = {
  readonly change: Change;
  readonly call: DeploymentCall;
  /** The revision that is not active any more. */
  readonly expectedRev: string;
  readonly mismatch: FlowgateError;
};

/** Merges a change with the revisions that were committed after the expected one, or throws an error that describes them. */
export async function mergeOrReject(mismatched: Mismatched, options: CommitOptions): Promise<Committed> {
  const { change, call, mismatch } = mismatched;
  const { store } = options;
  for (;;) {
    const active = store.active();
    const merge = await compare(mismatched, options);
    if (!call.merge || merge === undefined) {
      throw conflict(mismatch, call.conditions, await store.findEntry(active.rev), merge?.changes);
    }
    if (merge.merged === undefined) {
      throw mergeConflict(merge, await store.findEntry(active.rev));
    }
    const content = await keepCredentials(active, { ...merge.merged, submitted: merge.submitted }, store);
    call.signal.throwIfAborted();
    try {
      const draft = { ...toDraft(change, content, call, active.rev), cause: "merge" } as const;
      return {
        revision: await store.commit(draft, call.signal),
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
