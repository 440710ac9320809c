import type { FlowStore } from "../store/flow-store.ts";
import type { RevisionEntry } from "../store/revision.ts";
import type { Settlement } from "./settlement.ts";

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
