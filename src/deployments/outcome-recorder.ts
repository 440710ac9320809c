import type { Logger } from "pino";
import type { DeploymentResult, Runtime } from "../runtime/runtime.ts";
import type { FlowStore, RevisionOutcome } from "../store/store.ts";
import { outcomeMessage } from "./outcome-message.ts";

/** Keeps what became of revisions. */
export interface OutcomeRecorder extends Disposable {
  /** Records an outcome after those before it. Never rejects: failures are logged. */
  record(rev: string, outcome: RevisionOutcome): Promise<void>;
  /** Resolves when all outcomes so far are in the store. */
  flush(): Promise<void>;
}

/** Records the results of the runtime, and outcomes that are passed to `record`. Disposing ends the former. */
export function openOutcomeRecorder(
  store: FlowStore,
  runtime: Pick<Runtime, "onResult">,
  log: Logger,
): OutcomeRecorder {
  /** Writes one after another, so that the last outcome is kept. */
  let queue: Promise<void> = Promise.resolve();

  async function write(rev: string, outcome: RevisionOutcome): Promise<void> {
    const entry = await store.findEntry(rev);
    // The flows are started again with each start of the service.
    if (entry === undefined || isSame(entry.outcome, outcome)) {
      return;
    }
    // Flows that have failed may be started once more before those that replace them.
    const hasFailed = entry.outcome.state === "failed" || entry.outcome.state === "crashed";
    if (!hasFailed || store.active().rev === rev) {
      await store.update(rev, { outcome });
    }
  }

  function record(rev: string, outcome: RevisionOutcome): Promise<void> {
    queue = queue
      .then(() => write(rev, outcome))
      .catch((err: unknown) => log.warn({ err, rev }, "the outcome of a deployment could not be recorded"));
    return queue;
  }

  const subscription = runtime.onResult(({ revision: { rev }, result }) => {
    void record(rev, toOutcome(result));
  });

  return {
    record,
    flush: () => queue,
    [Symbol.dispose]: () => subscription[Symbol.dispose](),
  };
}

export function toOutcome(result: DeploymentResult): RevisionOutcome {
  return { state: result.outcome, message: outcomeMessage(result), missingTypes: result.missingTypes };
}

function isSame(one: RevisionOutcome, other: RevisionOutcome): boolean {
  return (
    one.state === other.state &&
    one.message === other.message &&
    one.missingTypes.join("\0") === other.missingTypes.join("\0")
  );
}
