import type { Logger } from "pino";
import type { DeploymentResult, Runtime, WaitOptions } from "../runtime/runtime.ts";
import type { FlowStore, Origin, Revision } from "../store/store.ts";
import { isMismatch } from "./draft.ts";
import { type HealthVerdict, watchHealth } from "./health-watch.ts";
import { outcomeMessage } from "./outcome-message.ts";
import { type OutcomeRecorder, toOutcome } from "./outcome-recorder.ts";
import type { Settlement } from "./settlement.ts";

type ProbationOptions = {
  /** How long the flows must run without failure. */
  readonly forMs: number;
  /** Who has asked for the parent to be deployed again if the flows fail; undefined: nobody. */
  readonly undoFor: Origin | undefined;
};

type Probation = {
  /** Resolves with the result, or with `pending` when the caller stops waiting; that does not end the probation. Never rejects. */
  within(wait: WaitOptions): Promise<Settlement>;
};

/** Watches deployed revisions for a while, and undoes those that fail. */
export interface Probations extends Disposable {
  begin(revision: Revision, options: ProbationOptions): Probation;
  /** Continues the probation of the active revision that an earlier process began. */
  resume(): Promise<void>;
  /** Ends all probations. Those with an undo are resumed at the next start of the service. */
  release(): void;
}

type ProbationsOptions = {
  readonly store: FlowStore;
  readonly runtime: Pick<Runtime, "apply" | "lastResult" | "onResult" | "onChange" | "status">;
  readonly outcomes: Pick<OutcomeRecorder, "record">;
  readonly log: Logger;
};

export function createProbations({ store, runtime, outcomes, log }: ProbationsOptions): Probations {
  const watches = new Set<Disposable>();

  async function settle(revision: Revision, verdict: HealthVerdict, undoFor: Origin | undefined): Promise<Settlement> {
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
        return { outcome: "replaced", missingTypes: [], rev };
      default:
        return { outcome: "pending", missingTypes: [], rev };
    }
  }

  /** Resolves with undefined if there is nothing to undo any more. */
  async function undo(failed: Revision, result: DeploymentResult, origin: Origin): Promise<Settlement | undefined> {
    const previous = failed.parent === undefined ? undefined : await store.find(failed.parent);
    if (previous === undefined) {
      return undefined;
    }
    let revision: Revision;
    try {
      revision = await store.commit({
        ...origin,
        parent: failed.rev,
        cause: "automatic_undo",
        deploymentType: "full",
        restoredRev: previous.rev,
        flows: previous.flows,
        credentials: previous.credentials,
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
    await runtime.apply(revision, "full");
    return { outcome: "undone", missingTypes: result.missingTypes, message: result.message, rev: revision.rev };
  }

  function begin(revision: Revision, { forMs, undoFor }: ProbationOptions): Probation {
    const watch = watchHealth(revision, forMs, { runtime, store });
    watches.add(watch);
    const settled = watch.verdict
      .then((verdict) => settle(revision, verdict, undoFor))
      .catch((err: unknown): Settlement => {
        log.error({ err, rev: revision.rev }, "the deployment could not be undone");
        return { outcome: "pending", missingTypes: [], rev: revision.rev };
      })
      .finally(() => watches.delete(watch));
    return {
      async within({ withinMs, signal }) {
        const { promise: ended, resolve } = Promise.withResolvers<Settlement>();
        const giveUp = (): void => resolve({ outcome: "pending", missingTypes: [], rev: revision.rev });
        const timer = withinMs === undefined ? undefined : setTimeout(giveUp, withinMs);
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
      },
    };
  }

  const release = (): void => {
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
        const { by, address, protocol, requestId } = entry;
        begin(revision, { forMs: entry.probationMs, undoFor: { by, address, protocol, requestId } });
      }
    },
    release,
    [Symbol.dispose]: release,
  };
}
