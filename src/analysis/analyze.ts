import { FlowgateError } from "../errors.ts";
import { Budget } from "../flows/budget.ts";
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
import type {
  DiffCall,
  DiffResult,
  MergeCall,
  MergeResult,
  PlanCall,
  PlanResult,
  ValidateCall,
  ValidateResult,
} from "./messages.ts";

export function analyzeDiff({ base, target }: Pick<DiffCall<Configuration>, "base" | "target">): DiffResult {
  const diff = diffFlows(base, target);
  return { diff, text: formatDiff(diff, { base: base.flows, target: target.flows }) };
}

/** `maxNodes` limits the time, since the nodes in each instance of a subflow are planned. */
export function analyzePlan(
  { base, target, current, type, runtime }: PlanCall<Configuration>,
  maxNodes: number,
): PlanResult {
  const { diff, text } = analyzeDiff({ base, target });
  try {
    const plan = planDeployment(current, target, type, runtime, new Budget({ maxNodes }));
    return { diff, plan, text: `${formatPlan(plan)}\n${text}` };
  } catch (error) {
    if (error instanceof FlowgateError && error.reason === "limit_exceeded") {
      return { diff, plan: undefined, text };
    }
    throw error;
  }
}

export async function analyzeMerge({ base, ours, theirs }: MergeCall<Configuration>): Promise<MergeResult> {
  const changes = compareSides(base, ours, theirs);
  const result = mergeFlows(base, ours, theirs);
  if (result.kind === "conflict") {
    return { changes, conflicts: result.conflicts, merged: undefined };
  }
  const { flows, credentials } = result.configuration;
  const { json, count } = await formatDocument(flows);
  return { changes, conflicts: [], merged: { json, count, credentials } };
}

export function analyzeValidity({ base }: Pick<ValidateCall<Configuration>, "base">): ValidateResult {
  return { violation: findViolation(toNodes(base.flows)) };
}
