import { Budget, sizeOf } from "../budget.ts";
import { escapeControls } from "../diff/format-value.ts";
import type { DeploymentPlan, PlannedNode } from "./plan.ts";

/**
 * Formats a plan for people: how many nodes stop and start, what is missing, and the warnings. Throws `limit_exceeded` if that exceeds
 * the budget.
 */
export function formatPlan(
  { nodes, missingTypes, modules, warnings }: DeploymentPlan,
  budget: Budget = new Budget(),
): string {
  const count = (action: PlannedNode["action"]): number => nodes.filter((node) => node.action === action).length;
  return [
    `nodes to start: ${count("start")}, to stop: ${count("stop")}, to restart: ${count("restart")}`,
    ...missingTypes.map(({ type, nodeIds }) => `missing type: ${type}, of ${nodeIds.join(", ")}; no node starts`),
    ...modules.map(
      ({ name, version, nodeIds }) =>
        `module: ${name}${version === undefined ? "" : `@${version}`}, for ${nodeIds.join(", ")}`,
    ),
    ...warnings.map(({ message }) => `warning: ${message}`),
  ]
    .map((line) => {
      const escaped = `${escapeControls(line)}\n`;
      budget.addOutput(sizeOf(escaped));
      return escaped;
    })
    .join("");
}
