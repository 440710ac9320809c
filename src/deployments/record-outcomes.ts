import type { Logger } from "pino";
import type { Runtime } from "../runtime/runtime.ts";
import type { FlowStore, RevisionOutcome } from "../store/store.ts";

/** Keeps the results of the runtime with their revisions. Disposing ends the subscription. */
export function recordOutcomes(store: FlowStore, runtime: Pick<Runtime, "onResult">, log: Logger): Disposable {
  /** Writes one after another, so that the last result is kept. */
  let queue: Promise<void> = Promise.resolve();

  async function record(rev: string, outcome: RevisionOutcome): Promise<void> {
    const entry = await store.findEntry(rev);
    if (entry === undefined || isSame(entry.outcome, outcome)) {
      return;
    }
    // Flows that have failed may be started once more before those that replace them.
    const hasFailed = entry.outcome.state === "failed" || entry.outcome.state === "crashed";
    if (!hasFailed || store.active().rev === rev) {
      await store.update(rev, { outcome });
    }
  }

  return runtime.onResult(({ revision: { rev }, result: { outcome: state, message, missingTypes } }) => {
    queue = queue
      .then(() => record(rev, { state, message, missingTypes }))
      .catch((err: unknown) => log.warn({ err, rev }, "the outcome of a deployment could not be recorded"));
  });
}

function isSame(one: RevisionOutcome, other: RevisionOutcome): boolean {
  return (
    one.state === other.state &&
    one.message === other.message &&
    one.missingTypes.join("\0") === other.missingTypes.join("\0")
  );
}
