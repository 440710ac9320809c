import type { Logger } from "pino";
import { handsOverAfter, ofSelf, runnersOf } from "../runtime/replicas/runs.ts";
import {
  type DeploymentResult,
  type RevisionResult,
  type Runtime,
  outcomeMessage,
  stopped,
} from "../runtime/runtime.ts";
import type { Cluster, Replica } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision, RevisionEntry, RevisionOutcome } from "../store/revision.ts";

/** The outcome of a deployment. `replaced`: a newer one was made before the flows were started; `undone`: they failed, and the previous ones were deployed again. */
export type Settlement = Omit<DeploymentResult, "outcome"> & {
  readonly outcome: DeploymentResult["outcome"] | "replaced" | "undone";
  /** The revision that is active as a result: the deployed one, or the one that has undone it. */
  readonly rev: string;
};

/** Records the outcomes of revisions. */
export interface OutcomeRecorder extends Disposable {
  /**
   * Records that the flows of the active revision are stopped, unless they have failed before, which remains known. Must be called when
   * this process has stopped them; for revisions that are committed afterwards, it is recorded without a call. Never rejects.
   */
  recordStop(): Promise<void>;
  /** Records an outcome after those before it. Never rejects: failures are logged. */
  record(rev: string, outcome: RevisionOutcome): Promise<void>;
  /** Resolves when all outcomes so far are in the store. */
  flush(): Promise<void>;
}

type RecorderOptions = {
  readonly store: FlowStore;
  readonly runtime: Pick<Runtime, "onResult">;
  /** Undefined: there are no other replicas. */
  readonly cluster?: Pick<Cluster, "replicas" | "onChange"> | undefined;
  /** Whether the flows are to run. */
  readonly desired: Pick<DesiredStateStore, "current">;
  /** Called with each outcome that was recorded. */
  readonly onRecorded?: ((entry: RevisionEntry) => void) | undefined;
  readonly log: Logger;
};

/**
 * Records the results of the runtime, and outcomes that are passed to `record`. Disposing ends the former.
 *
 * With several replicas, a failure of any of them is recorded at once, unless it hands the flows over to another one, and `running` when all that run flows run the revision:
 * it must not hide that another one has failed.
 */
export function openOutcomeRecorder({
  store,
  runtime,
  cluster,
  desired,
  onRecorded,
  log,
}: RecorderOptions): OutcomeRecorder {
  /** Writes one after another, so that the last outcome is kept. */
  let queue: Promise<void> = Promise.resolve();

  async function write(rev: string, outcome: RevisionOutcome): Promise<void> {
    const entry = await store.findEntry(rev);
    // The flows are started again with each start of the service.
    if (entry === undefined || isSame(entry.outcome, outcome)) {
      return;
    }
    const { isStarted } = desired.current();
    if (outcome.state === "stopped" && isStarted) {
      return;
    }
    // Flows that have failed may be started once more before those that replace them.
    const hasFailed = entry.outcome.state === "failed" || entry.outcome.state === "crashed";
    const isFinal = hasFailed && (outcome.state === "stopped" || store.active().rev !== rev);
    if (!isFinal) {
      const updated = await store.update(rev, { outcome });
      if (updated !== undefined) {
        onRecorded?.(updated);
      }
    }
  }

  function record(rev: string, outcome: RevisionOutcome): Promise<void> {
    queue = queue
      .then(() => write(rev, outcome))
      .catch((err: unknown) => log.warn({ err, rev }, "the outcome of a deployment could not be recorded"));
    return queue;
  }

  /** The newest result, while other replicas do not run its revision. */
  let heldBack: RevisionResult | undefined;

  function recordWhenAllRun(): void {
    if (!desired.current().isStarted) {
      heldBack = undefined;
    }
    if (heldBack === undefined) {
      return;
    }
    const { revision, result } = heldBack;
    const replicas = cluster?.replicas() ?? [];
    const others = runnersOf(replicas).filter(({ isSelf }) => !isSelf);
    const isFinal =
      result.outcome === "running"
        ? others.every((replica) => runs(replica, revision))
        : !handsOverAfter(result, replicas, revision.seq);
    if (isFinal) {
      heldBack = undefined;
      void record(revision.rev, named(toOutcome(result)));
    }
  }

  /** With the name of this replica, if there can be others. */
  function named(outcome: RevisionOutcome): RevisionOutcome {
    const { state, message = state === "running" ? undefined : state } = outcome;
    return cluster === undefined || message === undefined
      ? outcome
      : { ...outcome, message: ofSelf(cluster.replicas(), message) };
  }

  async function recordStop(): Promise<void> {
    if (!desired.current().isStarted) {
      await record(store.active().rev, toOutcome(stopped));
    }
  }

  // An earlier process may have ended before it recorded that.
  void recordStop();
  const subscriptions = new DisposableStack();
  subscriptions.use(
    store.onRevision(({ isOwn }) => {
      if (isOwn) {
        void recordStop();
      }
    }),
  );
  subscriptions.use(
    runtime.onResult((result) => {
      heldBack = result;
      recordWhenAllRun();
    }),
  );
  if (cluster !== undefined) {
    subscriptions.use(cluster.onChange(recordWhenAllRun));
  }

  return {
    record,
    recordStop,
    flush: () => queue,
    [Symbol.dispose]: () => subscriptions.dispose(),
  };
}

export function toOutcome(result: DeploymentResult): RevisionOutcome {
  return { state: result.outcome, message: outcomeMessage(result), missingTypes: result.missingTypes };
}

function runs({ run }: Replica, { seq }: Revision): boolean {
  return run?.seq === seq && run.outcome === "running";
}

function isSame(one: RevisionOutcome, other: RevisionOutcome): boolean {
  return (
    one.state === other.state &&
    one.message === other.message &&
    one.missingTypes.join("\0") === other.missingTypes.join("\0")
  );
}
