import { create } from "@bufbuild/protobuf";
import { type Revision, RevisionCause, SetFlowsResponseSchema } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { CliFailure } from "../failure.ts";
import { styleDiff } from "../output/changes.ts";
import { describeRevision } from "../revisions/describe-revision.ts";
import { findRevision, shortRev } from "../revisions/find-revision.ts";
import { confirmDeployment } from "./confirm.ts";
import { finishDeployment } from "./finish.ts";
import { deploymentFields } from "./fields.ts";
import type { DeploymentFlags } from "./flags.ts";
import { showPreview } from "./preview.ts";
import { printResponse } from "./print-response.ts";

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
  await preview(context, active, active.parent);
  await confirmDeployment(`Undo ${describeRevision(active)}?`, flags);
  const request = { ...deploymentFields(flags), rev: active.rev };
  await finishDeployment(context, () => session.flows.undoFlows(request), flags);
}

/** Deploys the flows of an earlier revision again, unless they are active already. */
export async function rollback(context: ClientContext, name: string, flags: DeploymentFlags): Promise<void> {
  const { session, output } = context;
  const [active, target] = await Promise.all([findRevision(session, "@"), findRevision(session, name)]);
  if (!(await preview(context, active, target.rev))) {
    const response = create(SetFlowsResponseSchema, { rev: active.rev });
    await printResponse(output, response, `No changes: revision ${shortRev(active.rev)} remains active.`);
    return;
  }
  await confirmDeployment(`Deploy the flows of ${describeRevision(target)} again?`, flags);
  const request = { ...deploymentFields(flags), rev: target.rev, activeRev: active.rev };
  await finishDeployment(context, () => session.revisions.restoreRevision(request), flags);
}

/** Shows what changes if the flows of a revision are deployed. Returns false if nothing does. */
async function preview({ session, output }: ClientContext, { rev: base }: Revision, rev: string): Promise<boolean> {
  const { diff, text } = await session.revisions.diffRevision({ rev, base });
  if (diff === undefined || diff.containers.length === 0) return false;
  showPreview(output, `${styleDiff(text, output)}\n`);
  return true;
}
