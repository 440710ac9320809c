import { PlanFlowsResponseSchema } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { stylePlan } from "../output/changes.ts";
import type { DeploymentFlags } from "./flags.ts";
import type { FlowsFlags } from "./flows-flags.ts";
import { planFlows } from "./plan.ts";
import { readFlows } from "./read-flows.ts";

/** Prints what a deployment would do. Throws a CliFailure if its flows would not run. */
export async function printPlan(
  context: ClientContext,
  paths: readonly string[],
  flags: FlowsFlags & Pick<DeploymentFlags, "type">,
): Promise<void> {
  const { output, session } = context;
  const plan = await planFlows(context, await readFlows(session, paths, flags), flags);
  output.message(PlanFlowsResponseSchema, plan, () => stylePlan(plan.text, output));
  if (plan.missingTypes.length > 0) {
    throw new CliFailure("The flows would not run: install the modules of the missing types first.", {
      exitCode: exitCodes.notRunning,
    });
  }
}
