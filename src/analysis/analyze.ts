import type { Configuration } from "../flows/configuration.ts";
import { diffFlows } from "../flows/diff/diff-flows.ts";
import { formatDiff } from "../flows/diff/format-diff.ts";
import { formatPlan } from "../flows/plan/format-plan.ts";
import { planDeployment } from "../flows/plan/plan.ts";
import type { DiffCall, DiffResult, PlanCall, PlanResult } from "./messages.ts";

export function analyzeDiff({ base, target }: Pick<DiffCall<Configuration>, "base" | "target">): DiffResult {
  const diff = diffFlows(base, target);
  return { diff, text: formatDiff(diff, { base: base.flows, target: target.flows }) };
}

export function analyzePlan({ base, target, current, type, runtime }: PlanCall<Configuration>): PlanResult {
  const { diff, text } = analyzeDiff({ base, target });
  const plan = planDeployment(current, target, type, runtime);
  return { diff, plan, text: `${formatPlan(plan)}\n${text}` };
}
