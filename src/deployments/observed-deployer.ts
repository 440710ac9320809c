import type { Context } from "@opentelemetry/api";
import type { Logger } from "pino";
import { FlowgateError, type Reason } from "../errors.ts";
import type { DeploymentType } from "../flows/configuration.ts";
import type { DeploymentMetricOutcome, Observer } from "../telemetry/observer.ts";
import { inSpan, traceIds } from "../telemetry/trace.ts";
import type { DeploymentCall } from "./call.ts";
import { createDeployer, type Deployed, type Deployer, type DeployerOptions } from "./deployer.ts";

/** The part of a deployment's circumstances that is only observed. */
export type ObservedCall = { readonly trace: Context; readonly startMs: number };

export interface ObservedDeployer {
  deploy(change: Parameters<Deployer["deploy"]>[0], call: DeploymentCall & ObservedCall): Promise<Deployed>;
  reload(call: DeploymentCall & ObservedCall): Promise<Deployed>;
}

type ObserveOptions = DeployerOptions & {
  readonly log: Logger;
  readonly observer: Pick<Observer, "deployed">;
};

/** Creates a deployer whose deployments are traced, counted and logged. */
export function createObservedDeployer({
  store,
  analysis,
  audit,
  runtime,
  probations,
  log,
  observer,
}: ObserveOptions): ObservedDeployer {
  /** A deployer whose steps are spans of the call's trace. */
  const traced = (trace: Context): Deployer =>
    createDeployer({
      audit,
      analysis,
      probations,
      store: {
        ...store,
        commit: (draft, signal) =>
          inSpan(trace, "store.commit", { "flowgate.deployment.type": draft.deploymentType }, () =>
            store.commit(draft, signal),
          ),
        reload: () => inSpan(trace, "store.reload", {}, () => store.reload()),
      },
      runtime: {
        apply: (revision, type, _, wait) => {
          const attributes = { "flowgate.rev": revision.rev, "flowgate.deployment.type": type };
          return inSpan(trace, "runtime.apply", attributes, async (span) => {
            const result = await runtime.apply(revision, type, span.context, wait);
            span.set("flowgate.deployment.outcome", toMetric(result.outcome));
            return result;
          });
        },
      },
    });

  async function observe(
    requested: DeploymentType,
    { trace, startMs, origin, signal }: DeploymentCall & ObservedCall,
    deployment: Promise<Deployed>,
  ): Promise<Deployed> {
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
        nodes: revision.nodeCount,
        outcome,
        ms: Math.round(performance.now() - startMs),
      },
      "deployed",
    );
    return deployed;
  }

  return {
    deploy: (change, call) => observe(change.deploymentType, call, traced(call.trace).deploy(change, call)),
    reload: (call) => observe("reload", call, traced(call.trace).reload(call)),
  };
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
