import type { Logger } from "pino";
import { outcomeMessage } from "../runtime/outcome-message.ts";
import type { DeploymentResult, Runtime } from "../runtime/runtime.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Origin } from "../store/origin.ts";
import type { Revision, RevisionEntry } from "../store/revision.ts";
import { isMismatch } from "./draft.ts";
import { keepCredentials } from "./kept-credentials.ts";
import type { Settlement } from "./settlement.ts";

export type AutomaticUndoOptions = {
  readonly store: Pick<FlowStore, "find" | "findCredentials" | "commit">;
  readonly runtime: Pick<Runtime, "apply">;
  readonly log: Logger;
};

/**
 * Deploys the parent of a failed revision again, with the type of the failed deployment. Resolves with undefined if there is nothing to undo any more: it has
 * no parent, or another revision has replaced it.
 */
export async function undoAutomatically(
  failed: Revision,
  result: DeploymentResult,
  origin: Origin,
  { store, runtime, log }: AutomaticUndoOptions,
): Promise<Settlement | undefined> {
  const previous = failed.parent === undefined ? undefined : await store.find(failed.parent);
  if (previous === undefined) {
    return undefined;
  }
  const { flows, credentials, kept } = await keepCredentials(failed, previous, store);
  let revision: Revision;
  try {
    revision = await store.commit({
      ...origin,
      parent: failed.rev,
      cause: "automatic_undo",
      deploymentType: failed.deploymentType,
      restoredRev: previous.rev,
      flows,
      credentials,
      kept,
      message: `the flows of ${failed.rev} failed: ${outcomeMessage(result) ?? result.outcome}`,
      probationMs: undefined,
      idempotencyKey: undefined,
    });
  } catch (error) {
    if (isMismatch(error)) {
      return undefined;
    }
    throw error;
  }
  log.warn({ rev: failed.rev, restored: previous.rev, reason: result.message }, "the deployment was undone");
  await runtime.apply(revision, revision.deploymentType);
  return { outcome: "undone", missingTypes: result.missingTypes, message: result.message, rev: revision.rev };
}

/** Resolves with the settlement of a revision if the next revision is its automatic undo, otherwise with undefined. */
export async function findAutomaticUndo(
  store: Pick<FlowStore, "list">,
  entry: RevisionEntry,
): Promise<Settlement | undefined> {
  const { revisions } = await store.list({ limit: 1, before: entry.seq + 2 });
  const [next] = revisions;
  const { missingTypes, message } = entry.outcome;
  return next?.parent === entry.rev && next.cause === "automatic_undo"
    ? { rev: next.rev, outcome: "undone", missingTypes, message }
    : undefined;
}
