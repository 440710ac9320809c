import { DeploymentTypeSchema, type Revision, RevisionCause } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { CliFailure } from "../failure.ts";
import { hasChanges, styleDiff } from "../output/changes.ts";
import { describeRevision, formatEnum, styleOutcome } from "../output/values.ts";
import { findRevision } from "../administration/history.ts";
import { confirmDeployment } from "./deploy.ts";
import { deploymentFields, finishDeployment, reportUnchanged } from "./outcome.ts";
import { type DeploymentFlags, type DeploymentTypeName, restarted } from "../shared-flags.ts";
import { describeModule, showPreview } from "./plan.ts";

/** Deploys the flows that preceded the active ones again. */
export async function undo(context: ClientContext, flags: DeploymentFlags): Promise<void> {
  const { session } = context;
  const active = await findRevision(session, "@");
  if (active.parent === "") {
    throw new CliFailure(`There is nothing to undo: ${describeRevision(active)} is the first one.`);
  }
  if (active.cause === RevisionCause.AUTOMATIC_UNDO) {
    throw new CliFailure(
      `There is nothing to undo: ${describeRevision(active)} has undone a deployment that failed. Deploy another one with: flowgate rollback REV`,
    );
  }
  const type = flags.type ?? formatEnum(DeploymentTypeSchema, active.deploymentType);
  await preview(context, active, await findRevision(session, active.parent), type, [
    ["Undo of", describeRevision(active)],
  ]);
  await confirmDeployment(`Undo ${describeRevision(active)}?`, flags);
  const request = { ...deploymentFields({ ...flags, type }), rev: active.rev };
  await finishDeployment(context, () => session.flows.undoFlows(request), flags);
}

/** Deploys the flows of an earlier revision again, unless they are active already. */
export async function rollback(context: ClientContext, name: string, flags: DeploymentFlags): Promise<void> {
  const { session } = context;
  const [active, target] = await Promise.all([findRevision(session, "@"), findRevision(session, name)]);
  if (!(await preview(context, active, target, flags.type ?? "full"))) {
    return reportUnchanged(context, active, flags);
  }
  await confirmDeployment(`Deploy the flows of ${describeRevision(target)} again?`, flags);
  const request = { ...deploymentFields(flags), rev: target.rev, activeRev: active.rev };
  await finishDeployment(context, () => session.revisions.restoreRevision(request), flags);
}

/** Shows what changes and restarts if the flows of a revision are deployed. Returns false if nothing changes. */
async function preview(
  { session, output }: ClientContext,
  { rev: base }: Revision,
  target: Revision,
  type: string,
  more: readonly (readonly [name: string, value: string])[] = [],
): Promise<boolean> {
  const changes = await session.revisions.diffRevision({ rev: target.rev, base });
  const { modules } = changes;
  if (!hasChanges(changes) && modules.length === 0) {
    return false;
  }
  const { outcome, outcomeMessage } = target;
  const fields = output.fields([
    ...more,
    ["Back to", describeRevision(target)],
    ["Outcome then", [styleOutcome(outcome), outcomeMessage === "" ? "" : `: ${outcomeMessage}`]],
    [
      "Nodes to restart",
      modules.length > 0 ? "all, since modules change" : `${restarted[type as DeploymentTypeName]} (type ${type})`,
    ],
    ...modules.map((module): [string, string] => ["To install", describeModule(module)]),
  ]);
  showPreview(output, `${fields}\n\n${styleDiff(changes, output)}\n`);
  return true;
}
