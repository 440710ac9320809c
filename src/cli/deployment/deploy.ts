import type { PlanFlowsResponse } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { stylePlan } from "../output/changes.ts";
import { confirmDeployment } from "./confirm.ts";
import { deploymentFields } from "./fields.ts";
import { finishDeployment } from "./finish.ts";
import type { DeploymentFlags } from "./flags.ts";
import { reportUnchanged } from "./outcome.ts";
import { hasChanges, planFlows } from "./plan.ts";
import { showPreview } from "./preview.ts";
import type { FlowsInput } from "./read-flows.ts";

export type DeployFlags = DeploymentFlags & { readonly merge?: true };

/** Plans a deployment, asks, and deploys. Flows that are active already are not deployed again. */
export async function deployFlows(context: ClientContext, input: FlowsInput, flags: DeployFlags): Promise<void> {
  const plan = await planFlows(context, input, flags);
  if (!hasChanges(plan)) {
    const { rev, activeOutcome: outcome, activeOutcomeMessage: outcomeMessage } = plan;
    return reportUnchanged(context, { rev, outcome, outcomeMessage }, flags);
  }
  await deployPlanned(context, input, plan, flags);
}

/** Reads the flows from the store again and restarts all nodes. */
export async function reloadFlows(context: ClientContext, flags: DeployFlags): Promise<void> {
  const input = { flows: [] };
  await deployPlanned(context, input, await planFlows(context, input, flags), flags);
}

async function deployPlanned(
  context: ClientContext,
  { flows, rev, credentials }: FlowsInput,
  plan: PlanFlowsResponse,
  flags: DeployFlags,
): Promise<void> {
  const { session, output, connection } = context;
  showPreview(output, `${stylePlan(plan.text, output)}\n`);
  // A reload is how installed modules are found.
  const harm = flags.type === "reload" ? undefined : plan;
  await confirmDeployment(`Deploy this to ${connection.server}?`, flags, harm);
  const isMerge = flags.merge === true;
  const request = {
    ...deploymentFields(flags),
    flows: [...flows],
    ...(credentials !== undefined && { credentials }),
    // Without --merge, the deployment fails if another one was made since the plan. With it, both are merged.
    rev: isMerge ? (rev ?? plan.rev) : plan.rev,
    merge: isMerge,
  };
  await finishDeployment(context, () => session.flows.setFlows(request), flags);
}
