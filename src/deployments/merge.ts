import type { Merge } from "../analysis/analysis.ts";
import type { FlowgateError } from "../errors.ts";
import type { DeploymentCall } from "./call.ts";
import type { Change } from "./change.ts";
import type { Committed, CommitOptions } from "./committed.ts";
import { isMismatch, toDraft } from "./draft.ts";
import { conflict, mergeConflict } from "./errors.ts";
import { toNodeChanges } from "./node-changes.ts";

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
      throw conflict(mismatch, call.conditions, await store.findEntry(active.rev), merge && toNodeChanges(merge));
    }
    if (merge.merged === undefined) {
      throw mergeConflict(merge, await store.findEntry(active.rev));
    }
    call.signal.throwIfAborted();
    try {
      const draft = { ...toDraft(change, merge.merged, call, active.rev), cause: "merge" } as const;
      return {
        revision: await store.commit(draft, call.signal),
        merge: { rev: active.rev, changes: toNodeChanges(merge) },
      };
    } catch (error) {
      // Another commit precedes this one again.
      if (!isMismatch(error)) {
        throw error;
      }
    }
  }
}

/** Undefined if the expected revision is not in the history, or the change is not one of its flows. */
async function compare(
  { change, expectedRev }: Mismatched,
  { store, analysis }: CommitOptions,
): Promise<Merge | undefined> {
  const base = change.cause === "deployment" ? await store.find(expectedRev) : undefined;
  return base && analysis.merge({ base, ours: await change.apply(base), theirs: store.active() });
}
