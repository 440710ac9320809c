import type { Logger } from "pino";
import { type HealthMonitor, toOutcome } from "../health/monitor.ts";
import { isRunnerState } from "../replicas/runs.ts";
import { type DeploymentResult, type Runtime, stopped } from "@flowgate/runtime";
import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision, RevisionEntry, RevisionOutcome } from "../store/revision.ts";

/** The outcome of a deployment. `replaced`: a newer one was made before the flows were started; `undone`: they failed, and the previous ones were deployed again. */
export type Settlement = Omit<DeploymentResult, "outcome"> & {
  readonly outcome: DeploymentResult["outcome"] | "replaced" | "undone";
  /** The revision that is active as a result: the deployed one, or the one that has undone it. */
  readonly rev: string;
};

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
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "onResult">;
  readonly monitor: Pick<HealthMonitor, "health" | "outcome" | "onChange" | "onExit">;
  readonly cluster?: Pick<Cluster, "replicas" | "onChange"> | undefined;
  readonly desired: Pick<DesiredStateStore, "current">;
  readonly onRecorded?: ((entry: RevisionEntry) => void) | undefined;
  readonly log: Logger;
};

/**
 * Records the health of the active revision as its outcome, on a replica that runs flows, how often the process ended meanwhile, and outcomes
 * that are passed to `record`. Disposing ends that.
 *
 * With several replicas, a failure of any of them is recorded at once, unless it hands the flows over to another one, and that they run when
 * all that run flows run the revision: it must not hide that another one has failed.
 */
export function openOutcomeRecorder(options: RecorderOptions): OutcomeRecorder {
  return new StoredOutcomes(options);
}

class StoredOutcomes implements OutcomeRecorder {
  readonly #options: RecorderOptions;
  readonly #subscriptions = new DisposableStack();
  /** Writes one after another, so that the last outcome is kept. */
  #queue: Promise<void> = Promise.resolve();
  /** The last outcome recorded here, which avoids another read from the store. */
  #last = "";

  constructor(options: RecorderOptions) {
    const { store, runtime, monitor, cluster } = options;
    this.#options = options;
    // An earlier process may have ended before it recorded that.
    void this.recordStop();
    const evaluate = (): void => this.#evaluate();
    this.#subscriptions.use(
      store.onRevision(({ revision, isOwn }) => {
        this.#last = "";
        if (isOwn) {
          this.#reportUndo(revision);
          void this.recordStop();
        }
      }),
    );
    this.#subscriptions.use(runtime.onResult(evaluate));
    this.#subscriptions.use(monitor.onChange(evaluate));
    this.#subscriptions.use(cluster?.onChange(evaluate));
    this.#subscriptions.use(monitor.onExit(() => this.#countExit()));
  }

  record(rev: string, outcome: RevisionOutcome): Promise<void> {
    return this.#enqueue(rev, () => this.#write(rev, () => outcome));
  }

  async recordStop(): Promise<void> {
    const { store, desired } = this.#options;
    this.#last = "";
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

  #enqueue(rev: string, write: () => Promise<void>): Promise<void> {
    const { log } = this.#options;
    this.#queue = this.#queue
      .then(write)
      .catch((err: unknown) => log.warn({ err, rev }, "the outcome of a deployment could not be recorded"));
    return this.#queue;
  }

  /** Undefined: nothing is to be recorded. */
  async #write(rev: string, outcomeAfter: (entry: RevisionEntry) => RevisionOutcome | undefined): Promise<void> {
    const { store, desired, onRecorded } = this.#options;
    const entry = await store.findEntry(rev);
    const outcome = entry && outcomeAfter(entry);
    // The flows are started again with each start of the service.
    if (entry === undefined || outcome === undefined || isSame(entry.outcome, outcome)) {
      return;
    }
    const before = entry.outcome.state;
    if (outcome.state === "stopped" && (desired.current().isStarted || before === "degraded" || before === "failed")) {
      return;
    }
    const isFinal =
      before === "undone" || (store.active().rev !== rev && before !== "pending" && before !== "replaced");
    if (!isFinal) {
      const updated = await store.update(rev, { outcome });
      if (updated !== undefined) {
        onRecorded?.(updated);
      }
    }
  }

  /** The commit of an undo has recorded it. */
  #reportUndo({ cause, parent }: Revision): void {
    const { store, onRecorded } = this.#options;
    if ((cause === "undo" || cause === "automatic_undo") && parent !== undefined) {
      void this.#enqueue(parent, async () => {
        const entry = await store.findEntry(parent);
        if (entry !== undefined) {
          onRecorded?.(entry);
        }
      });
    }
  }

  #countExit(): void {
    const { store, runtime } = this.#options;
    const rev = runtime.lastResult()?.revision.rev ?? store.active().rev;
    void this.#enqueue(rev, async () => void (await store.update(rev, { restarts: 1 })));
  }

  #evaluate(): void {
    const { store, runtime, monitor } = this.#options;
    const { rev } = store.active();
    if (!isRunnerState(runtime.status().state)) {
      return;
    }
    const health = monitor.health();
    const outcome = monitor.outcome(health);
    if (outcome.state === "pending" || outcome.state === "stopped") {
      return;
    }
    // After an exit, the flows may run again or have failed for good in a moment.
    const isInterrupted = health.state === "starting";
    const key = JSON.stringify([rev, outcome, isInterrupted]);
    if (key !== this.#last) {
      this.#last = key;
      void this.#enqueue(rev, () =>
        this.#write(rev, ({ outcome: { state } }) => (isInterrupted && state !== "pending" ? undefined : outcome)),
      );
    }
  }
}

function isSame(one: RevisionOutcome, other: RevisionOutcome): boolean {
  return (
    one.state === other.state &&
    one.message === other.message &&
    one.missingTypes.join("\0") === other.missingTypes.join("\0")
  );
}
