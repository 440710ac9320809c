import { CliFailure } from "../failure.ts";
import type { DeploymentFlags } from "./flags.ts";

/** Asks whether to deploy, if a person is at the terminal. A pipeline has to review the plan before. */
export async function confirmDeployment(question: string, { yes }: DeploymentFlags): Promise<void> {
  if (yes === true) return;
  const { askConfirmation, canAsk } = await import("../prompts.ts");
  if (canAsk() && !(await askConfirmation(question))) {
    throw new CliFailure("Nothing was deployed.");
  }
}
