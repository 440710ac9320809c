import type { SetFlowsResponse } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { explainConflict } from "./conflict.ts";
import type { DeploymentFlags } from "./flags.ts";
import { reportOutcome } from "./outcome.ts";

/** Deploys, and reports the outcome. Throws a CliFailure unless its flows run. */
export async function finishDeployment(
  context: ClientContext,
  deploy: () => Promise<SetFlowsResponse>,
  flags: Pick<DeploymentFlags, "wait">,
): Promise<void> {
  await reportOutcome(context, await settle(context, deploy), flags);
}

async function settle({ progress }: ClientContext, deploy: () => Promise<SetFlowsResponse>): Promise<SetFlowsResponse> {
  try {
    return await progress.during("Deploying", deploy);
  } catch (error) {
    throw explainConflict(error);
  }
}
