import { DeploymentOutcome, DeploymentOutcomeSchema } from "@flowgate/client";
import { enumWord } from "../output/enum-word.ts";
import type { Output } from "../output/output.ts";

export function styleOutcome(outcome: DeploymentOutcome, output: Pick<Output, "style">): string {
  const word = enumWord(DeploymentOutcomeSchema, outcome);
  switch (outcome) {
    case DeploymentOutcome.RUNNING:
      return output.style("green", word);
    case DeploymentOutcome.FAILED:
    case DeploymentOutcome.CRASHED:
      return output.style("red", word);
    default:
      return output.style("yellow", word);
  }
}
