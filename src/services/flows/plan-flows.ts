import type { HandlerContext } from "@connectrpc/connect";
import {
  type PlanFlowsRequest,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Analysis } from "../../analysis/analysis.ts";
import { callerOf, originOf } from "../../auth/origin.ts";
import { allows } from "../../auth/permissions.ts";
import { principalKey } from "../../auth/principal.ts";
import { insufficientScope } from "../../auth/unauthorized.ts";
import { headerConditions, revCondition } from "../../deployments/conditions.ts";
import { conflict } from "../../deployments/errors.ts";
import { keepCredentials } from "../../deployments/kept-credentials.ts";
import { outcomes } from "../../deployments/revision-message.ts";
import type { SubmittedCredentials } from "../../flows/credentials.ts";
import type { RuntimeView } from "../../flows/plan/plan.ts";
import { resultOf } from "../../runtime/replicas/runs.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Cluster } from "../../store/cluster.ts";
import { versionMismatch } from "../../store/errors.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import { analyzedResponse } from "../analysis-call.ts";
import { findRevision } from "./find-revision.ts";
import type { Prepare } from "./set-flows.ts";

export type PlanFlowsOptions = {
  readonly store: FlowStore;
  readonly prepare: Prepare;
  readonly analysis: Pick<Analysis, "plan">;
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "nodeTypes">;
  /** Undefined: there are no other replicas. */
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
};

/** Checks a request as a deployment would, and describes what that would do. */
export async function planFlows(
  request: PlanFlowsRequest,
  context: HandlerContext,
  { store, prepare, analysis, runtime, cluster }: PlanFlowsOptions,
): Promise<PlanFlowsResponse> {
  const active = store.active();
  // One time limit for both steps.
  const caller = { ...callerOf(context), startMs: performance.now() };
  const { type, rev, base, outcome } = await prepare(request, active, context, caller);
  const isRest = originOf(context).protocol === "rest";
  const conditions = isRest ? headerConditions(rev, context.requestHeader) : revCondition(rev);
  const expectedRev = conditions.evaluate(active);
  if (expectedRev !== undefined && expectedRev !== active.rev) {
    throw conflict(versionMismatch(active.rev), conditions, await store.findEntry(active.rev));
  }
  if (outcome instanceof Error) {
    throw outcome;
  }
  if (outcome !== undefined && hasCredentials(outcome.submitted)) {
    requireWritePermission(context);
  }
  const from = base === "" ? active : await findRevision(store, base, context);
  const result = resultOf(active, runtime, cluster);
  // Without an outcome, it is a reload, which changes no flows.
  const call = {
    base: from,
    target: outcome === undefined ? active : await keepCredentials(active, outcome, store),
    current: active,
    rev: active.rev,
    type,
    runtime: viewOf(runtime),
    active: { activeOutcome: outcomes[result.outcome], activeOutcomeMessage: result.message ?? "" },
  };
  return analyzedResponse(PlanFlowsResponseSchema, context, (format) => analysis.plan({ ...call, format }, caller));
}

function hasCredentials({ inline, topLevel }: SubmittedCredentials): boolean {
  return topLevel !== undefined || inline.values().some((set) => set.size > 0);
}

/** A plan says whether credentials differ from the stored ones, which a reader could use to guess them. */
function requireWritePermission({ values, requestHeader }: HandlerContext): void {
  if (!allows(values.get(principalKey).permissions, "flows.write")) {
    throw insufficientScope("flows.write", requestHeader.has("authorization"));
  }
}

function viewOf(runtime: PlanFlowsOptions["runtime"]): RuntimeView {
  const { state } = runtime.status();
  const isRunning = state !== "restarting" && state !== "safe" && state !== "stopped";
  return { knownTypes: runtime.nodeTypes(), isRunning };
}
