import { type PlanFlowsResponse, type Proposal, ProposalSchema } from "@flowgate/client";
import { formatProposal } from "./proposals.ts";
import type { ClientContext } from "../client/action.ts";
import { ifPermitted } from "../client/session.ts";
import { UsageFailure } from "../failure.ts";
import { hasChanges, stylePlan } from "../output/changes.ts";
import { shortRev } from "../output/values.ts";
import type { DeploymentFlags, FlowsFlags } from "../shared-flags.ts";
import { proposalFields } from "./outcome.ts";
import { contentOf, type FlowsInput, modulesToInstall, planFlows, readFlows, showPreview } from "./plan.ts";

/** Proposes the flows of files. Flows that are active already are not proposed. */
export async function propose(
  context: ClientContext,
  paths: readonly string[],
  flags: FlowsFlags & DeploymentFlags,
): Promise<void> {
  if (paths.length === 0) {
    throw new UsageFailure("Name the files or folders to propose, or - for stdin.");
  }
  const { session, output, progress } = context;
  const input = await readFlows(session, paths, flags);
  const planned = await planIfPermitted(context, input, flags);
  if (planned !== undefined && !hasChanges(planned) && modulesToInstall(input, planned).length === 0) {
    const rev = shortRev(planned.rev);
    process.stdout.write(`No changes: these flows are active as revision ${rev}. Nothing was proposed.\n`);
    return;
  }
  const fields = proposalFields(flags);
  const rev = input.rev ?? planned?.rev;
  const request = { ...fields, ...contentOf(input), ...(rev !== undefined && { rev }) };
  const proposal = await progress.during("Proposing", () => session.proposals.createProposal(request));
  const plan =
    planned ??
    (await ifPermitted(session, "proposals.read", () => session.proposals.planProposal({ id: proposal.id })));
  if (plan !== undefined) {
    showPreview(output, `${stylePlan(plan, output)}\n`);
  }
  output.message(ProposalSchema, proposal, () => `${formatProposal(proposal, output)}\n\n${describeNext(proposal)}`);
}

/** A plan with credentials needs the permission to deploy, without which flows can be proposed. */
function planIfPermitted(
  context: ClientContext,
  input: FlowsInput,
  flags: Pick<DeploymentFlags, "type">,
): Promise<PlanFlowsResponse | undefined> {
  const permission = input.credentials === undefined ? "flows.read" : "flows.write";
  return ifPermitted(context.session, permission, () => planFlows(context, input, flags));
}

function describeNext({ id }: Proposal): string {
  return `Another user approves it with: flowgate proposal approve ${id}\nAny other deployment makes it stale.`;
}
