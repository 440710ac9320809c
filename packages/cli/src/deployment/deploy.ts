import { stat } from "node:fs/promises";
import { ModuleState, NodeChange, type PlanFlowsResponse, PlanWarningKind } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import type { DeploymentFlags, FlowsFlags } from "../shared-flags.ts";
import { CliFailure, exitCodes, UsageFailure } from "../failure.ts";
import { hasChanges, stylePlan } from "../output/changes.ts";
import { askConfirmation, canAsk } from "../output/prompts.ts";
import { deploymentFields, finishDeployment, reportUnchanged } from "./outcome.ts";
import { contentOf, diffFlows, type FlowsInput, modulesToInstall, planFlows, readFlows, showPreview } from "./plan.ts";

type DeployFlags = DeploymentFlags & { readonly merge?: true };

/** Deploys files and folders; with `--type reload`, the flows in the store. */
export async function deploy(
  context: ClientContext,
  paths: readonly string[],
  flags: FlowsFlags & DeploymentFlags,
): Promise<void> {
  if (flags.type === "reload") {
    if (paths.length > 0) {
      throw new UsageFailure("--type reload takes no files.");
    }
    const nothing = { flows: [] };
    return deployPlanned(context, nothing, await planFlows(context, nothing, flags), flags);
  }
  if (paths.length === 0) {
    throw new UsageFailure("Name the files or folders to deploy, or - for stdin.");
  }
  return deployFlows(context, await readFlows(context.session, paths, flags), flags);
}

/** Plans a deployment, asks, and deploys. Flows that are active already are not deployed again. */
export async function deployFlows(context: ClientContext, input: FlowsInput, flags: DeployFlags): Promise<void> {
  const plan = await planFlows(context, input, flags);
  if (!hasChanges(plan) && modulesToInstall(input, plan).length === 0) {
    const { rev, activeOutcome: outcome, activeOutcomeMessage: outcomeMessage } = plan;
    return reportUnchanged(context, { rev, outcome, outcomeMessage }, flags);
  }
  await deployPlanned(context, input, plan, flags);
}

async function deployPlanned(
  context: ClientContext,
  input: FlowsInput,
  plan: PlanFlowsResponse,
  flags: DeployFlags,
): Promise<void> {
  const { session, output, connection } = context;
  showPreview(output, `${stylePlan(plan, output)}\n`);
  // A reload is how installed modules are found.
  const harm = flags.type === "reload" ? undefined : harmOf(input, plan);
  await confirmDeployment(`Deploy this to ${connection.server}?`, flags, harm);
  const isMerge = flags.merge === true;
  const request = {
    ...deploymentFields(flags),
    ...contentOf(input),
    // Without --merge, the deployment fails if another one was made since the plan. With it, both are merged.
    rev: isMerge ? (input.rev ?? plan.rev) : plan.rev,
    merge: isMerge,
  };
  await finishDeployment(context, () => session.flows.setFlows(request), flags);
}

/** The problems that a deployment would cause. */
type Harm = Pick<PlanFlowsResponse, "missingTypes" | "warnings"> & {
  readonly missingModules?: readonly string[];
  readonly removed?: string | undefined;
};

function harmOf(input: FlowsInput, plan: PlanFlowsResponse): Harm {
  const { missingTypes, modules, warnings } = plan;
  const installed = modulesToInstall(input, plan).length > 0;
  const missingModules = modules.filter(({ state }) => state === ModuleState.MISSING).map(({ name }) => name);
  return {
    // They may be those of modules that the deployment installs.
    ...(installed ? { missingTypes: [], missingModules: [] } : { missingTypes, missingModules }),
    warnings,
    removed: describeRemoval(input, plan),
  };
}

/** `all 3 tabs`, or `12 of 20 nodes` if these are more than half. Undefined: less is removed. */
function describeRemoval({ flows }: FlowsInput, { diff }: PlanFlowsResponse): string | undefined {
  const changed = diff?.containers.flatMap(({ nodes }) => nodes) ?? [];
  const compare = (isCounted: (node: { readonly type: string }) => boolean): { removed: number; before: number } => {
    const count = (change: NodeChange): number =>
      changed.filter((node) => node.change === change && isCounted(node)).length;
    const removed = count(NodeChange.REMOVED);
    return { removed, before: flows.filter(isCounted).length - count(NodeChange.ADDED) + removed };
  };
  const tabs = compare(({ type }) => type === "tab");
  const nodes = compare(() => true);
  if (tabs.removed > 0 && tabs.removed === tabs.before) {
    return tabs.removed === 1 ? "the only tab" : `all ${tabs.removed} tabs`;
  }
  return nodes.removed > nodes.before / 2 ? `${nodes.removed} of ${nodes.before} nodes` : undefined;
}

/** Deploys what differs between a folder and the active flows, or only reports it. */
export async function syncFolder(
  context: ClientContext,
  folder: string,
  { type = "flows", check, ...flags }: DeploymentFlags & { readonly credentials?: string; readonly check?: true },
): Promise<void> {
  if ((await stat(folder).catch(() => undefined))?.isDirectory() !== true) {
    throw new UsageFailure(`${folder}: is not a folder. Deploy files with flowgate deploy.`);
  }
  const { flows, credentials, modules } = await readFlows(context.session, [folder], flags);
  const input = { flows, credentials, modules };
  await (check === true ? diffFlows(context, input, "") : deployFlows(context, input, { ...flags, type }));
}

/**
 * Asks whether to deploy, if a person is at the terminal. Otherwise throws a CliFailure for a plan with which flows would not run,
 * credentials would be lost or most flows would be removed, unless the deployment is forced.
 */
export async function confirmDeployment(question: string, { yes, force }: DeploymentFlags, harm?: Harm): Promise<void> {
  if (yes !== true && canAsk()) {
    if (!(await askConfirmation(question))) {
      throw new CliFailure("Nothing was deployed.");
    }
  } else if (harm !== undefined && force !== true) {
    assertHarmless(harm);
  }
}

function assertHarmless({ missingTypes, missingModules = [], warnings, removed }: Harm): void {
  if (missingTypes.length > 0) {
    const types = missingTypes.map(({ type }) => type).join(", ");
    throw new CliFailure(
      `Nothing was deployed. The flows would not run: these node types are not installed: ${types}\nInstall their modules first, or repeat with --force.`,
      { exitCode: exitCodes.notRunning },
    );
  }
  if (missingModules.length > 0) {
    throw new CliFailure(
      `Nothing was deployed. The flows would not run: these modules are not installed: ${missingModules.join(", ")}\nInstall them first, or repeat with --force.`,
      { exitCode: exitCodes.notRunning },
    );
  }
  const losses = warnings.filter(({ kind }) => kind === PlanWarningKind.LOST_CREDENTIALS);
  if (losses.length > 0) {
    throw new CliFailure(
      [
        "Nothing was deployed. Credentials would be lost:",
        ...losses.map(({ message }) => message),
        "Add them to the deployment, keep the nodes as they are, or repeat with --force.",
      ].join("\n"),
    );
  }
  if (removed !== undefined) {
    throw new CliFailure(
      `Nothing was deployed. It would remove ${removed}.\nCheck that these are all of the flows, and repeat with --force.`,
    );
  }
}
