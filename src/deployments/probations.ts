import type { Logger } from "pino";
import type { Analysis } from "./analysis/analysis.ts";
import type { DeploymentType } from "@flowgate/flows";
import type { AffectedNodes } from "@flowgate/flows/compare";
import { toOutcome } from "../health/monitor.ts";
import type { EventHub } from "../events/hub.ts";
import {
  deploymentWaitMs,
  restartsAllNodes,
  type DeploymentResult,
  type Runtime,
  type WaitOptions,
  outcomeMessage,
  stopped,
} from "@flowgate/runtime";
import { handsOverAfter, ofSelf } from "../replicas/runs.ts";
import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Origin } from "../store/audit-store.ts";
import type { ErrorLimit, Revision, RevisionEntry } from "../store/revision.ts";
import { isMismatch } from "./deployment.ts";
import { ErrorWatch } from "./error-watch.ts";
import { keepCredentials } from "./kept-credentials.ts";
import type { ModuleSets } from "./module-sets.ts";
import type { OutcomeRecorder, Settlement } from "./outcome-recorder.ts";
import { type ProbationVerdict, type ProbationWatch, watchReplicas, watchRuntime } from "./probation-watch.ts";

type ProbationOptions = {
  readonly type: DeploymentType;
  /** The time for which the flows must run without failure. */
  readonly forMs: number;
  /** The number of errors that nodes may log in this time. */
  readonly maxErrors: number;
  /** The user who requested that the parent be deployed again if the flows fail; undefined: nobody. */
  readonly undoFor: Origin | undefined;
};

type Probation = {
  /**
   * Resolves with the result, with `stopped` when the flows are to be stopped, or with `pending` when the caller stops waiting; neither
   * ends the probation. Never rejects.
   */
  within(wait: WaitOptions): Promise<Settlement>;
};

type ProbationsOptions = {
  readonly store: FlowStore;
  readonly cluster?: Pick<Cluster, "replicas" | "onChange"> | undefined;
  readonly desired: Pick<DesiredStateStore, "current" | "onChange">;
  /** Time limit of a deployment; longer for very large ones. */
  readonly deadlineMs: number;
  readonly runtime: Pick<Runtime, "apply" | "lastResult" | "onResult" | "onChange" | "status" | "degrade">;
  readonly analysis: Pick<Analysis, "findAffected">;
  readonly modules: Pick<ModuleSets, "restoreIfPossible">;
  readonly hub: Pick<EventHub, "onEvent">;
  readonly outcomes: Pick<OutcomeRecorder, "record">;
  readonly log: Logger;
};

/**
 * Watches deployed revisions for a while, and undoes failing ones. With several replicas, the replica that committed
 * the revision watches all replicas, and each other replica watches itself, in case the first one exits. Each counts
 * the errors of its own nodes, and reports too many as the result of the revision. A revision can't be undone twice:
 * its undo is a commit with this revision as the parent. While the flows are stopped, nothing fails; their time begins
 * when they are started.
 */
export class Probations implements Disposable {
  readonly #options: ProbationsOptions;
  readonly #watches = new Set<Disposable>();
  readonly #joining: Disposable | undefined;
  readonly #ending = new AbortController();

  constructor(options: ProbationsOptions) {
    const { store, cluster, log } = options;
    this.#options = options;
    this.#joining =
      cluster &&
      store.onRevision(({ revision, isOwn, isReload = false }) => {
        if (!isOwn && !isReload) {
          this.#join(revision).catch((err: unknown) =>
            log.error({ err, rev: revision.rev }, "the deployment is not watched"),
          );
        }
      });
  }

  /** A reload is watched on this replica only. */
  begin(revision: Revision, { type, forMs, maxErrors, undoFor }: ProbationOptions): Probation {
    const { store, cluster, desired, runtime, deadlineMs, log } = this.#options;
    const errors = forMs === 0 ? undefined : this.#watchErrors(revision, type, { forMs, maxErrors });
    const watched = { runtime, store, desired, ready: errors?.ready };
    const watch = this.#keep(
      cluster === undefined || type === "reload"
        ? // A reload starts flows of which there are results already.
          watchRuntime(revision, forMs, watched, { countsEarlier: type !== "reload" })
        : watchReplicas(revision, errors === undefined ? forMs : forMs + reportMs, { ...watched, cluster }),
    );
    void watch.verdict.then(() => errors?.[Symbol.dispose]());
    const limitMs =
      cluster !== undefined
        ? deploymentWaitMs(revision, deadlineMs) + forMs
        : // Flows that do not start in time are a failure, unless none are ever started.
          runtime.status().state === "disabled"
          ? 0
          : Infinity;
    const endMs = performance.now() + limitMs;
    const unsettled: Settlement = { outcome: "pending", missingTypes: [], rev: revision.rev };
    const settled = watch.verdict
      .then((verdict) => this.#settle(revision, verdict, undoFor))
      .catch((err: unknown): Settlement => {
        log.error({ err, rev: revision.rev }, "the deployment could not be undone");
        return unsettled;
      });
    return {
      within: ({ withinMs = Infinity, signal }) =>
        settledWithin(settled, { timeMs: Math.min(withinMs, endMs - performance.now()), signal, unsettled, desired }),
    };
  }

  /** Continues the probation of the active revision that an earlier process began. */
  async resume(): Promise<void> {
    const { store } = this.#options;
    const revision = store.active();
    const entry = await store.findEntry(revision.rev);
    if (entry?.probationMs !== undefined) {
      const { probationMs: forMs, errorLimit } = entry;
      // Without one, the revision was deployed by an older version.
      const maxErrors = errorLimit?.maxErrors ?? Infinity;
      this.begin(revision, { type: revision.deploymentType, forMs, maxErrors, undoFor: originOf(entry) });
    }
  }

  /** Ends all probations. Probations with an undo are resumed at the next start of the service. */
  [Symbol.dispose](): void {
    this.#joining?.[Symbol.dispose]();
    this.#ending.abort();
    for (const watch of this.#watches) {
      watch[Symbol.dispose]();
    }
  }

  #keep(watch: ProbationWatch): ProbationWatch {
    this.#watches.add(watch);
    void watch.verdict.then(() => this.#watches.delete(watch));
    return watch;
  }

  /** Counts the errors of nodes that a deployment affects, in the runtime of this process. */
  #watchErrors(revision: Revision, type: DeploymentType, limit: ErrorLimit): ErrorWatch {
    const { runtime, hub } = this.#options;
    const affected = this.#findAffected(revision, type);
    const watch = new ErrorWatch({ revision, limit, affected, countsEarlier: type !== "reload", runtime, hub });
    this.#watches.add(watch);
    void watch.ended.then(() => this.#watches.delete(watch));
    return watch;
  }

  async #findAffected(revision: Revision, type: DeploymentType): Promise<AffectedNodes> {
    const { store, analysis, log } = this.#options;
    const { rev, parent } = revision;
    if (restartsAllNodes({ type }) || parent === undefined) {
      return "all";
    }
    try {
      const base = await store.find(parent);
      const caller = { source: "", signal: this.#ending.signal };
      return base === undefined ? "all" : await analysis.findAffected({ base, target: revision }, caller);
    } catch (err) {
      if (!this.#ending.signal.aborted) {
        log.warn(
          { err, rev },
          "errors of all nodes count, since it can't be determined which nodes a deployment affects",
        );
      }
      return "all";
    }
  }

  /** Counts the errors of nodes of another replica's revision here, and undoes it if it fails here. */
  async #join(revision: Revision): Promise<void> {
    const { store, cluster, desired, runtime, deadlineMs } = this.#options;
    const { rev } = revision;
    const entry = await store.findEntry(rev);
    if (entry === undefined) {
      return;
    }
    const { errorLimit } = entry;
    const errors = errorLimit && this.#watchErrors(revision, revision.deploymentType, errorLimit);
    if (errorLimit !== undefined) {
      // If the flows start here later, no call waits for them.
      const endMs = deploymentWaitMs(revision, deadlineMs) + errorLimit.forMs;
      const end = setTimeout(() => errors?.[Symbol.dispose](), endMs).unref();
      void errors?.ended.then(() => clearTimeout(end));
    }
    if (entry.probationMs === undefined) {
      return;
    }
    const verdict = await this.#keep(
      watchRuntime(
        revision,
        entry.probationMs,
        { runtime, store, desired, ready: errors?.ready },
        { countsEarlier: true },
      ),
    ).verdict;
    // The other replica may have ended the probation long ago, if this one did not run the flows until now.
    const isOver = (await store.findEntry(rev))?.probationMs === undefined;
    const replicas = cluster?.replicas() ?? [];
    if (verdict.kind === "failed" && !isOver && !handsOverAfter(verdict.result, replicas, revision.seq)) {
      const { result } = verdict;
      const message = ofSelf(replicas, result.message ?? result.outcome);
      await this.#settle(revision, { kind: "failed", result: { ...result, message } }, originOf(entry));
    }
  }

  async #settle(revision: Revision, verdict: ProbationVerdict, undoFor: Origin | undefined): Promise<Settlement> {
    const { store, outcomes } = this.#options;
    const { rev } = revision;
    switch (verdict.kind) {
      case "failed":
        await outcomes.record(rev, toOutcome(verdict.result));
        return (undoFor && (await this.#undo(revision, verdict.result, undoFor))) ?? { ...verdict.result, rev };
      case "healthy":
        if (undoFor !== undefined) {
          await store.update(rev, { probationMs: undefined });
        }
        return { outcome: "running", missingTypes: [], rev };
      case "replaced":
        return (await this.#findUndo(rev)) ?? { outcome: "replaced", missingTypes: [], rev };
      default:
        return { outcome: "pending", missingTypes: [], rev };
    }
  }

  async #undo(failed: Revision, result: DeploymentResult, origin: Origin): Promise<Settlement | undefined> {
    return (await undoAutomatically(failed, result, origin, this.#options)) ?? this.#findUndo(failed.rev);
  }

  /** The undo may have been made by another replica. */
  async #findUndo(rev: string): Promise<Settlement | undefined> {
    const { store, cluster } = this.#options;
    const entry = cluster && (await store.findEntry(rev));
    return entry && findAutomaticUndo(store, entry);
  }
}

/** After this time, the result of a replica is known to the others. */
const reportMs = 1_000;

function originOf({ by, token, address, protocol, requestId }: RevisionEntry): Origin {
  return { by, token, address, protocol, requestId };
}

type SettleOptions = Pick<ProbationsOptions, "desired"> & {
  readonly timeMs: number;
  readonly signal: AbortSignal | undefined;
  readonly unsettled: Settlement;
};

/** Resolves with `unsettled` when the time is over or the signal is aborted, and with `stopped` when the flows are to be stopped. */
async function settledWithin(
  settled: Promise<Settlement>,
  { timeMs, signal, unsettled, desired }: SettleOptions,
): Promise<Settlement> {
  const { promise: ended, resolve } = Promise.withResolvers<Settlement>();
  const giveUp = (): void => resolve(unsettled);
  const endIfStopped = (): void => {
    if (!desired.current().isStarted) {
      resolve({ ...stopped, rev: unsettled.rev });
    }
  };
  using _ = desired.onChange(endIfStopped);
  endIfStopped();
  const timer = timeMs === Infinity ? undefined : setTimeout(giveUp, timeMs);
  signal?.addEventListener("abort", giveUp, { once: true });
  if (signal?.aborted === true) {
    giveUp();
  }
  try {
    return await Promise.race([settled, ended]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
  }
}

/**
 * Deploys the parent of a failed revision again, with its modules if possible, and the type of the failed deployment. Resolves with undefined if there is nothing to undo any more: it has
 * no parent, or another revision has replaced it.
 */
async function undoAutomatically(
  failed: Revision,
  result: DeploymentResult,
  origin: Origin,
  { store, modules, runtime, log }: Pick<ProbationsOptions, "store" | "modules" | "runtime" | "log">,
): Promise<Settlement | undefined> {
  const previous = failed.parent === undefined ? undefined : await store.find(failed.parent);
  if (previous === undefined) {
    return undefined;
  }
  const { flows, credentials, kept, claimed } = await keepCredentials(failed, previous, store);
  const writes = { seq: failed.writtenSeq ?? 0, submitted: new Set<string>(), claimed, replacesLater: true };
  const restoredRev = previous.rev;
  const reason = `the flows of ${failed.rev} failed: ${outcomeMessage(result) ?? result.outcome}`;
  let revision: Revision;
  try {
    revision = await modules.restoreIfPossible({ flows, restoredRev }, origin, (needed, problem) =>
      store.commit({
        ...origin,
        parent: failed.rev,
        cause: "automatic_undo",
        deploymentType: failed.deploymentType,
        restoredRev,
        flows,
        credentials,
        kept,
        modules: needed,
        writes,
        message: problem === undefined ? reason : `${reason}; their modules could not be brought back: ${problem}`,
        probationMs: undefined,
        idempotencyKey: undefined,
      }),
    );
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
