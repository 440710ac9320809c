import { CliFailure } from "../failure.ts";
import type { DeploymentFlags } from "./flags.ts";

/** Asks whether to deploy, if a person is at the terminal. A pipeline has to review the plan before. */
export async function confirmDeployment(question: string, { yes }: DeploymentFlags): Promise<void> {
  if (yes === true || !isInteractive()) return;
  const { confirm, isCancel } = await import("@clack/prompts");
  const answer = await confirm({ message: question, initialValue: false, output: process.stderr, withGuide: false });
  if (answer !== true) {
    throw new CliFailure("Nothing was deployed.", isCancel(answer) ? { exitCode: 130 } : {});
  }
}

export function isInteractive(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}
