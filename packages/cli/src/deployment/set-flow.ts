import type { Node } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { CliFailure } from "../failure.ts";
import { describeTab, findTab, readTabs } from "../administration/find-node.ts";
import { stylePlan } from "../output/changes.ts";
import type { DeploymentFlags } from "../shared-flags.ts";
import { confirmDeployment } from "./deploy.ts";
import { deploymentFields, finishDeployment, reportUnchanged } from "./outcome.ts";
import { planFlows, showPreview } from "./plan.ts";

export function enableFlow(context: ClientContext, name: string, flags: DeploymentFlags): Promise<void> {
  return setFlow(context, name, false, flags);
}

export function disableFlow(context: ClientContext, name: string, flags: DeploymentFlags): Promise<void> {
  return setFlow(context, name, true, flags);
}

/** Plans the change of a tab, asks, and deploys it; unless the tab is enabled or disabled already. */
async function setFlow(
  context: ClientContext,
  name: string,
  disabled: boolean,
  { type = "flows", ...flags }: DeploymentFlags,
): Promise<void> {
  const { session, output, connection } = context;
  const { flows, rev } = await session.flows.getFlows({});
  const tab = findTab(flows, name);
  if (tab === undefined) {
    throw new CliFailure(`There is no tab with the label or id ${JSON.stringify(name)}. ${listTabs(flows)}`);
  }
  const isChange = (tab.properties?.["disabled"] === true) !== disabled;
  const changed = { ...tab, properties: { ...tab.properties, disabled } };
  // The service adds a tab that exists only as the `z` of nodes.
  const all = flows.includes(tab) ? flows : [...flows, tab];
  const planned = isChange ? all.map((node) => (node === tab ? changed : node)) : flows;
  const plan = await planFlows(context, { flows: planned, rev }, { type });
  if (!isChange) {
    const { activeOutcome: outcome, activeOutcomeMessage: outcomeMessage } = plan;
    return reportUnchanged(context, { rev: plan.rev, outcome, outcomeMessage }, flags);
  }
  showPreview(output, `${stylePlan(plan, output)}\n`);
  const word = disabled ? "Disable" : "Enable";
  await confirmDeployment(`${word} the flow ${describeTab(tab)} at ${connection.server}?`, flags, plan);
  const request = { ...deploymentFields({ ...flags, type }), id: tab.id, rev: plan.rev };
  await finishDeployment(
    context,
    () => (disabled ? session.flows.disableFlow(request) : session.flows.enableFlow(request)),
    flags,
  );
}

const maxListed = 20;

function listTabs(nodes: readonly Node[]): string {
  const tabs = readTabs(nodes);
  const more = tabs.length > maxListed ? `, and ${tabs.length - maxListed} more` : "";
  return tabs.length === 0
    ? "There are none."
    : `There are: ${tabs.slice(0, maxListed).map(describeTab).join(", ")}${more}.`;
}
