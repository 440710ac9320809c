import { PlanFlowsResponseSchema } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { stylePlan } from "../output/changes.ts";
import type { DeploymentFlags } from "./flags.ts";
import type { FlowsFlags } from "./flows-flags.ts";
import { hasChanges, type PlanFlags, planFlows } from "./plan.ts";
import { type FlowsInput, readFlows } from "./read-flows.ts";

/** Prints what a deployment would do. Throws a CliFailure if its flows would not run. */
export async function printPlan(
  context: ClientContext,
  paths: readonly string[],
  flags: FlowsFlags & Pick<DeploymentFlags, "type">,
): Promise<void> {
  await printFlowsPlan(context, await readFlows(context.session, paths, flags), flags);
}

/** The same for flows that are not in files. */
export async function printFlowsPlan(context: ClientContext, input: FlowsInput, flags: PlanFlags): Promise<void> {
  const { output } = context;
  const plan = await planFlows(context, input, flags);
  // The server counts the nodes that a deployment of the same flows would restart, which flowgate deploy does not make.
  const text = hasChanges(plan)
    ? plan.text
    : plan.text.replace(/^.*/, "No changes: these flows are active, and flowgate deploy would restart nothing.");
  output.message(PlanFlowsResponseSchema, plan, () => stylePlan(text, output));
  if (plan.missingTypes.length > 0) {
    throw new CliFailure("The flows would not run: install the modules of the missing types first.", {
      exitCode: exitCodes.notRunning,
    });
  }
}
