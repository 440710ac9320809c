import type { Logger } from "pino";
import type { DeploymentType } from "../flows/configuration.ts";
import { deploymentBudgetMs } from "../runtime/deployment.ts";
import { handsOverAfter, ofSelf } from "../runtime/replicas/runs.ts";
import { type DeploymentResult, type Runtime, type WaitOptions, outcomeMessage } from "../runtime/runtime.ts";
import type { Cluster } from "../store/cluster.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Origin } from "../store/origin.ts";
import type { Revision, RevisionEntry } from "../store/revision.ts";
import { isMismatch } from "./deployment.ts";
import { keepCredentials } from "./kept-credentials.ts";
import { type OutcomeRecorder, type Settlement, toOutcome } from "./outcome-recorder.ts";
import { type ProbationVerdict, type ProbationWatch, watchReplicas, watchRuntime } from "./probation-watch.ts";

type ProbationOptions = {
  readonly type: DeploymentType;
  /** How long the flows must run without failure. */
  readonly forMs: number;
  /** Who has asked for the parent to be deployed again if the flows fail; undefined: nobody. */
  readonly undoFor: Origin | undefined;
};

type Probation = {
  /** Resolves with the result, or with `pending` when the caller stops waiting; that does not end the probation. Never rejects. */
  within(wait: WaitOptions): Promise<Settlement>;
};

/**
 * Watches deployed revisions for a while, and undoes those that fail. With several replicas, the replica that committed the
 * revision watches all replicas, and each other replica watches itself, in case the first one exits. A revision can't be undone
 * twice: its undo is a commit with this revision as the parent.
 */
export interface Probations extends Disposable {
  /** A reload is watched on this replica only. */
  begin(revision: Revision, options: ProbationOptions): Probation;
  /** Continues the probation of the active revision that an earlier process began. */
  resume(): Promise<void>;
  /** Ends all probations. Those with an undo are resumed at the next start of the service. */
  release(): void;
}

type ProbationsOptions = {
  readonly store: FlowStore;
  /** Undefined: there are no other replicas. */
  readonly cluster?: Pick<Cluster, "replicas" | "onChange"> | undefined;
  /** Time limit of a deployment; longer for very large ones. */
  readonly deadlineMs: number;
  readonly runtime: Pick<Runtime, "apply" | "lastResult" | "onResult" | "onChange" | "status">;
  readonly outcomes: Pick<OutcomeRecorder, "record">;
  readonly log: Logger;
};

export function createProbations({
  store,
  cluster,
  deadlineMs,
  runtime,
  outcomes,
  log,
}: ProbationsOptions): Probations {
  const watches = new Set<Disposable>();

  async function settle(
    revision: Revision,
    verdict: ProbationVerdict,
    undoFor: Origin | undefined,
  ): Promise<Settlement> {
    const { rev } = revision;
    switch (verdict.kind) {
      case "failed":
        await outcomes.record(rev, toOutcome(verdict.result));
        return (undoFor && (await undo(revision, verdict.result, undoFor))) ?? { ...verdict.result, rev };
      case "healthy":
        if (undoFor !== undefined) {
          await store.update(rev, { probationMs: undefined });
        }
        return { outcome: "running", missingTypes: [], rev };
      case "replaced":
        return (await findUndo(rev)) ?? { outcome: "replaced", missingTypes: [], rev };
      default:
        return { outcome: "pending", missingTypes: [], rev };
    }
  }

  async function undo(failed: Revision, result: DeploymentResult, origin: Origin): Promise<Settlement | undefined> {
    return (await undoAutomatically(failed, result, origin, { store, runtime, log })) ?? findUndo(failed.rev);
  }

  /** The undo may have been made by another replica. */
  async function findUndo(rev: string): Promise<Settlement | undefined> {
    const entry = cluster && (await store.findEntry(rev));
    return entry && findAutomaticUndo(store, entry);
  }

  function watched(watch: ProbationWatch): ProbationWatch {
    watches.add(watch);
    void watch.verdict.then(() => watches.delete(watch));
    return watch;
  }

  function begin(revision: Revision, { type, forMs, undoFor }: ProbationOptions): Probation {
    const watch = watched(
      cluster === undefined || type === "reload"
        ? // A reload starts flows of which there are results already.
          watchRuntime(revision, forMs, { runtime, store }, { countsEarlier: type !== "reload" })
        : watchReplicas(revision, forMs, { runtime, store, cluster }),
    );
    // Without other replicas, flows that do not start in time are a failure.
    const limitMs = cluster === undefined ? Infinity : deploymentBudgetMs(revision, deadlineMs) + forMs;
    const endMs = performance.now() + limitMs;
    const settled = watch.verdict
      .then((verdict) => settle(revision, verdict, undoFor))
      .catch((err: unknown): Settlement => {
        log.error({ err, rev: revision.rev }, "the deployment could not be undone");
        return { outcome: "pending", missingTypes: [], rev: revision.rev };
      });
    const unsettled: Settlement = { outcome: "pending", missingTypes: [], rev: revision.rev };
    return {
      within: ({ withinMs = Infinity, signal }) =>
        settledWithin(settled, Math.min(withinMs, endMs - performance.now()), signal, unsettled),
    };
  }

  /** Undoes the revision of another replica if it fails here. */
  async function join(revision: Revision): Promise<void> {
    const { rev } = revision;
    const entry = await store.findEntry(rev);
    if (entry?.probationMs === undefined) {
      return;
    }
    const verdict = await watched(
      watchRuntime(revision, entry.probationMs, { runtime, store }, { countsEarlier: true }),
    ).verdict;
    // The other replica may have ended the probation long ago, if this one did not run the flows until now.
    const isOver = (await store.findEntry(rev))?.probationMs === undefined;
    const replicas = cluster?.replicas() ?? [];
    if (verdict.kind === "failed" && !isOver && !handsOverAfter(verdict.result, replicas, revision.seq)) {
      const { result } = verdict;
      const message = ofSelf(replicas, result.message ?? result.outcome);
      await settle(revision, { kind: "failed", result: { ...result, message } }, originOf(entry));
    }
  }

  const joining =
    cluster &&
    store.onRevision(({ revision, isOwn, isReload = false }) => {
      if (!isOwn && !isReload) {
        join(revision).catch((err: unknown) => log.error({ err, rev: revision.rev }, "the deployment is not watched"));
      }
    });

  const release = (): void => {
    joining?.[Symbol.dispose]();
    for (const watch of watches) {
      watch[Symbol.dispose]();
    }
  };

  return {
    begin,
    async resume() {
      const revision = store.active();
      const entry = await store.findEntry(revision.rev);
      if (entry?.probationMs !== undefined) {
        begin(revision, { type: revision.deploymentType, forMs: entry.probationMs, undoFor: originOf(entry) });
      }
    },
    release,
    [Symbol.dispose]: release,
  };
}

function originOf({ by, token, address, protocol, requestId }: RevisionEntry): Origin {
  return { by, token, address, protocol, requestId };
}

/** Resolves with `unsettled` when the time is over or the signal is aborted. */
async function settledWithin(
  settled: Promise<Settlement>,
  timeMs: number,
  signal: AbortSignal | undefined,
  unsettled: Settlement,
): Promise<Settlement> {
  const { promise: ended, resolve } = Promise.withResolvers<Settlement>();
  const giveUp = (): void => resolve(unsettled);
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
