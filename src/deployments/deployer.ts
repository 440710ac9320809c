import type { Logger } from "pino";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import type { DeploymentType } from "@flowgate/flows";
import type { Runtime } from "@flowgate/runtime";
import type { AuditStore } from "../store/audit-store.ts";
import { RepeatedRequest, type FlowStore } from "../store/flow-store.ts";
import type { Revision, RevisionEntry, RevisionSummary } from "../store/revision.ts";
import type { DeploymentMetricOutcome, Observer } from "../telemetry/observer.ts";
import { inSpan } from "../telemetry/trace.ts";
import { traceIds } from "@flowgate/base/spans";
import { commitChange } from "./commit.ts";
import { type Change, type CommitOptions, type Committed, type DeploymentCall, fingerprint } from "./deployment.ts";
import { conflict, idempotencyKeyReused } from "./errors.ts";
import type { Settlement } from "./outcome-recorder.ts";
import { findAutomaticUndo, type Probations } from "./probations.ts";

export type Deployed = Settlement &
  Pick<Committed, "merge"> & {
    /** The revision that was committed, or the stored one of a reload. */
    readonly revision: Pick<Revision, "rev" | "nodeCount" | "deploymentType">;
    /** True if an earlier request with its idempotency key made the revision. */
    readonly isRepeated?: true;
  };

export type DeployerOptions = Pick<CommitOptions, "analysis" | "modules"> & {
  readonly store: FlowStore;
  readonly audit: Pick<AuditStore, "append">;
  readonly runtime: Pick<Runtime, "apply">;
  readonly probations: Pick<Probations, "begin">;
  readonly log: Logger;
  readonly observer: Pick<Observer, "deployed">;
};

/** Makes new revisions and starts them. Deployments are traced, counted and logged. */
export class Deployer {
  readonly #options: DeployerOptions;

  constructor(options: DeployerOptions) {
    this.#options = options;
  }

  /** Rejects if nothing was committed. Resolves when the runtime has started the flows, can't, or the caller stops waiting. */
  deploy(change: Change, call: DeploymentCall): Promise<Deployed> {
    return this.#observe(change.deploymentType, call, this.#commitAndStart(change, call));
  }

  /** Reads the active revision from the store again, and restarts all nodes. */
  reload(call: DeploymentCall): Promise<Deployed> {
    return this.#observe("reload", call, this.#reloadAndStart(call));
  }

  async #commitAndStart(change: Change, call: DeploymentCall): Promise<Deployed> {
    let committed: Committed;
    try {
      committed = await commitChange(change, call, this.#options);
    } catch (error) {
      if (error instanceof RepeatedRequest) {
        return this.#repeat(change, call, error);
      }
      throw error;
    }
    const { revision, merge } = committed;
    return { ...(await this.#start(revision, revision.deploymentType, call)), merge };
  }

  async #reloadAndStart(call: DeploymentCall): Promise<Deployed> {
    const { store, audit } = this.#options;
    const before = store.active();
    const expectedRev = call.conditions.evaluate(before);
    // The body of a reload is ignored, and with it its `rev`.
    if (call.conditions.isPrecondition && expectedRev !== undefined && expectedRev !== before.rev) {
      throw conflict(before.rev, call.conditions, await store.findEntry(before.rev));
    }
    const revision = await inSpan(call.trace, "store.reload", {}, () => store.reload());
    // Other deployments are recorded by their commit.
    await audit.append([{ kind: "deployment", origin: call.origin, subject: revision.rev, detail: "reload" }]);
    return this.#start(revision, "reload", { ...call, undoOnFailure: false });
  }

  async #start(revision: Revision, type: DeploymentType, call: DeploymentCall): Promise<Deployed> {
    const { runtime, probations } = this.#options;
    const { trace, signal, untilMs, waitMs, maxErrors, undoOnFailure } = call;
    // What is left after the commit.
    const wait = { withinMs: untilMs && Math.max(0, untilMs - performance.now()), signal };
    // Begins before the start, so that no failure is missed and the start is part of the caller's wait.
    const settled =
      waitMs === undefined
        ? undefined
        : probations
            .begin(revision, { type, forMs: waitMs, maxErrors, undoFor: undoOnFailure ? call.origin : undefined })
            .within(wait);
    const attributes = { "flowgate.rev": revision.rev, "flowgate.deployment.type": type };
    // Store first: if the runtime crashes on these flows, it must find them again when it restarts.
    const started = inSpan(trace, "runtime.apply", attributes, async (span) => {
      const result = await runtime.apply(revision, type, span.context, wait);
      span.set("flowgate.deployment.outcome", toMetric(result.outcome));
      return result;
    });
    const [result, settlement] = await Promise.all([started, settled]);
    return { revision, ...(settlement ?? { ...result, rev: revision.rev }) };
  }

  /** Describes the deployment that a request made when it was sent before. */
  async #repeat(change: Change, call: DeploymentCall, first: RepeatedRequest): Promise<Deployed> {
    const { store } = this.#options;
    if (!fingerprint(change).equals(first.fingerprint)) {
      throw idempotencyKeyReused();
    }
    const active = store.active();
    if (active.rev === first.rev) {
      const started = await this.#start(active, active.deploymentType, { ...call, undoOnFailure: false });
      return { ...started, merge: mergeOf(active), isRepeated: true };
    }
    const entry = await store.findEntry(first.rev);
    const revision = { rev: first.rev, nodeCount: 0, deploymentType: change.deploymentType, ...entry };
    const undo = entry && (await findAutomaticUndo(store, entry));
    return { revision, ...(undo ?? { ...outcomeOf(entry), rev: first.rev }), merge: mergeOf(entry), isRepeated: true };
  }

  async #observe(
    requested: DeploymentType,
    { trace, startMs, origin, approval, signal }: DeploymentCall,
    deployment: Promise<Deployed>,
  ): Promise<Deployed> {
    const { log, observer } = this.#options;
    const count = (type: DeploymentType, outcome: DeploymentMetricOutcome): void =>
      observer.deployed(type, outcome, (performance.now() - startMs) / 1000);
    let deployed: Deployed;
    try {
      deployed = await deployment;
    } catch (error) {
      count(requested, signal.aborted ? "canceled" : outcomeOfError(error));
      throw error;
    }
    const { revision, outcome } = deployed;
    // A reload makes no revision.
    const type = requested === "reload" ? requested : revision.deploymentType;
    count(type, toMetric(outcome));
    log.info(
      {
        requestId: origin.requestId,
        ...traceIds(trace),
        rev: revision.rev,
        type,
        by: origin.by,
        token: origin.token?.name,
        ...(approval !== undefined && { proposal: approval.proposalId, approvedBy: approval.origin.by }),
        nodes: revision.nodeCount,
        outcome,
        ms: Math.round(performance.now() - startMs),
      },
      "deployed",
    );
    return deployed;
  }
}

/** Returns the merge of a stored revision, without its nodes, which are not stored. */
function mergeOf(revision: RevisionSummary | undefined): Committed["merge"] {
  return revision?.cause === "merge" && revision.parent !== undefined
    ? { rev: revision.parent, changes: { listed: [], count: 0 } }
    : undefined;
}

function outcomeOf(entry: RevisionEntry | undefined): Pick<Settlement, "outcome" | "missingTypes" | "message"> {
  const { state = "pending", missingTypes = [], message } = entry?.outcome ?? {};
  return { outcome: state, missingTypes, message };
}

function toMetric(outcome: Deployed["outcome"]): DeploymentMetricOutcome {
  return outcome === "running" ? "running" : "not_running";
}

const conflicts: ReadonlySet<Reason> = new Set(["version_mismatch", "precondition_failed", "merge_conflict"]);

function outcomeOfError(error: unknown): DeploymentMetricOutcome {
  // `unavailable` is a failure of the store.
  if (!(error instanceof FlowgateError) || error.reason === "unavailable") {
    return "error";
  }
  return conflicts.has(error.reason) ? "conflict" : "refused";
}
