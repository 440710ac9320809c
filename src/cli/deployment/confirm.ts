import { type PlanFlowsResponse, PlanWarningKind } from "@flowgate/client";
import { CliFailure, exitCodes } from "../failure.ts";
import { printableLines } from "../printable.ts";
import type { DeploymentFlags } from "./flags.ts";

/**
 * Asks whether to deploy, if a person is at the terminal. Otherwise throws a CliFailure for a plan with which flows would not run or
 * credentials would be lost, unless the deployment is forced.
 */
export async function confirmDeployment(
  question: string,
  { yes, force }: DeploymentFlags,
  plan?: Pick<PlanFlowsResponse, "missingTypes" | "warnings">,
): Promise<void> {
  if (yes !== true) {
    const { askConfirmation, canAsk } = await import("../prompts.ts");
    if (canAsk()) {
      if (!(await askConfirmation(question))) {
        throw new CliFailure("Nothing was deployed.");
      }
      return;
    }
  }
  if (plan !== undefined && force !== true) {
    assertHarmless(plan);
  }
}

function assertHarmless({ missingTypes, warnings }: Pick<PlanFlowsResponse, "missingTypes" | "warnings">): void {
  if (missingTypes.length > 0) {
    const types = missingTypes.map(({ type }) => type).join(", ");
    throw new CliFailure(
      printableLines(
        `Nothing was deployed. The flows would not run: these node types are not installed: ${types}\nInstall their modules first, or repeat with --force.`,
      ),
      { exitCode: exitCodes.notRunning },
    );
  }
  const losses = warnings.filter(({ kind }) => kind === PlanWarningKind.LOST_CREDENTIALS);
  if (losses.length > 0) {
    const lines = ["Nothing was deployed. Credentials would be lost:", ...losses.map(({ message }) => message)];
    throw new CliFailure(
      printableLines(
        [...lines, "Add them to the deployment, keep the nodes as they are, or repeat with --force."].join("\n"),
      ),
    );
  }
}
