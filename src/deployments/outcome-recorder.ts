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
export function openOutcomeRecorder(options: RecorderOptions): OutcomeRecorder {
  return new StoredOutcomes(options);
}

class StoredOutcomes implements OutcomeRecorder {
  readonly #options: RecorderOptions;
  readonly #subscriptions = new DisposableStack();
  /** Writes one after another, so that the last outcome is kept. */
  #queue: Promise<void> = Promise.resolve();
  /** The newest result, while other replicas do not run its revision. */
  #heldBack: RevisionResult | undefined;

  constructor(options: RecorderOptions) {
    this.#options = options;
    // An earlier process may have ended before it recorded that.
    void this.recordStop();
    this.#subscriptions.use(
      options.store.onRevision(({ isOwn }) => {
        if (isOwn) {
          void this.recordStop();
        }
      }),
    );
    this.#subscriptions.use(
      options.runtime.onResult((result) => {
        this.#heldBack = result;
        this.#recordWhenAllRun();
      }),
    );
    if (options.cluster !== undefined) {
      this.#subscriptions.use(options.cluster.onChange(() => this.#recordWhenAllRun()));
    }
  }

  record(rev: string, outcome: RevisionOutcome): Promise<void> {
    const { log } = this.#options;
    this.#queue = this.#queue
      .then(() => this.#write(rev, outcome))
      .catch((err: unknown) => log.warn({ err, rev }, "the outcome of a deployment could not be recorded"));
    return this.#queue;
  }

  async recordStop(): Promise<void> {
    const { store, desired } = this.#options;
    if (!desired.current().isStarted) {
      await this.record(store.active().rev, toOutcome(stopped));
    }
  }

  flush(): Promise<void> {
    return this.#queue;
  }

  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
  }

  async #write(rev: string, outcome: RevisionOutcome): Promise<void> {
    const { store, desired, onRecorded } = this.#options;
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
    const hasFailed = ["degraded", "failed", "crashed"].includes(entry.outcome.state);
    const isFinal = hasFailed && (outcome.state === "stopped" || store.active().rev !== rev);
    if (!isFinal) {
      const updated = await store.update(rev, { outcome });
      if (updated !== undefined) {
        onRecorded?.(updated);
      }
    }
  }

  #recordWhenAllRun(): void {
    const { cluster, desired } = this.#options;
    if (!desired.current().isStarted) {
      this.#heldBack = undefined;
    }
    if (this.#heldBack === undefined) {
      return;
    }
    const { revision, result } = this.#heldBack;
    const replicas = cluster?.replicas() ?? [];
    const others = runnersOf(replicas).filter(({ isSelf }) => !isSelf);
    const isFinal =
      result.outcome === "running"
        ? others.every((replica) => runs(replica, revision))
        : !handsOverAfter(result, replicas, revision.seq);
    if (isFinal) {
      this.#heldBack = undefined;
      void this.record(revision.rev, this.#named(toOutcome(result)));
    }
  }

  /** With the name of this replica, if there can be others. */
  #named(outcome: RevisionOutcome): RevisionOutcome {
    const { cluster } = this.#options;
    const { state, message = state === "running" ? undefined : state } = outcome;
    return cluster === undefined || message === undefined
      ? outcome
      : { ...outcome, message: ofSelf(cluster.replicas(), message) };
  }
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
