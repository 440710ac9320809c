import type { PlanFlowsResponse } from "../../gen/flowgate/v1/flows_pb.ts";
import type { DiffRevisionResponse } from "../../gen/flowgate/v1/revisions_pb.ts";
import type { Budget } from "../flows/budget.ts";
import type { Configuration } from "../flows/configuration.ts";
import { diffFlows } from "../flows/diff/diff-flows.ts";
import { formatDiff } from "../flows/diff/format-diff.ts";
import { formatDocument } from "../flows/document.ts";
import { compareSides } from "../flows/merge/compare-sides.ts";
import { mergeFlows } from "../flows/merge/merge-flows.ts";
import { formatPlan } from "../flows/plan/format-plan.ts";
import { planDeployment } from "../flows/plan/plan.ts";
import { findViolation } from "../flows/parse-flows.ts";
import { toNodes } from "../flows/to-nodes.ts";
import type { DiffCall, MergeCall, MergeResult, PlanCall, ValidateCall, ValidateResult } from "./messages.ts";
import { toNodeChanges } from "./node-changes.ts";
import { toDiffRevisionResponse, toPlanFlowsResponse } from "./response-messages.ts";

export function analyzeDiff(
  { base, target, names, deployment }: DiffCall<Configuration>,
  budget: Budget,
): DiffRevisionResponse {
  const diff = diffFlows(base, target, budget);
  const text = formatDiff(diff, { base: base.flows, target: target.flows }, budget);
  if (deployment === undefined) {
    return toDiffRevisionResponse({ ...names, diff, text, plan: undefined });
  }
  const { type, isRunning, missingTypes } = deployment;
  const types = new Set(target.flows.map((node) => node.type)).difference(new Set(missingTypes));
  const knownTypes = missingTypes.length === 0 ? undefined : types;
  const plan = planDeployment(base, target, type, { isRunning, knownTypes }, budget);
  return toDiffRevisionResponse({ ...names, diff, plan, text: `${formatPlan(plan, budget)}\n${text}` });
}

export function analyzePlan(
  { base, target, current, rev, type, runtime, active }: PlanCall<Configuration>,
  budget: Budget,
): PlanFlowsResponse {
  const diff = diffFlows(base, target, budget);
  const plan = planDeployment(current, target, type, runtime, budget);
  const text = `${formatPlan(plan, budget)}\n${formatDiff(diff, { base: base.flows, target: target.flows }, budget)}`;
  return toPlanFlowsResponse({ rev, diff, plan, text, ...active });
}

export async function analyzeMerge(
  { base, ours, theirs }: MergeCall<Configuration>,
  budget: Budget,
): Promise<MergeResult> {
  const changes = compareSides(base, ours, theirs);
  const result = mergeFlows(base, ours, theirs, budget);
  if (result.kind === "conflict") {
    const { conflicts } = result;
    return { changes: toNodeChanges(changes, conflicts), conflictCount: conflicts.length, merged: undefined };
  }
  const { flows, credentials } = result.configuration;
  const { json, count } = await formatDocument(flows);
  return { changes: toNodeChanges(changes, []), conflictCount: 0, merged: { json, count, credentials } };
}

export function analyzeValidity({ base }: Pick<ValidateCall<Configuration>, "base">): ValidateResult {
  return { violation: findViolation(toNodes(base.flows)) };
}
