import { ConnectError } from "@connectrpc/connect";
import { DeploymentOutcome, type SetFlowsResponse } from "@flowgate/client";
import { printable } from "../output/printable.ts";
import type { ClientContext } from "../client/client-action.ts";
import type { Session } from "../client/session.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { shortRev } from "../revisions/find-revision.ts";
import { printResponse } from "./print-response.ts";

/** Prints the outcome of a deployment. Throws a CliFailure if its flows do not run, or not yet although the caller waited. */
export async function reportOutcome(
  { session, output }: ClientContext,
  response: SetFlowsResponse,
  { wait }: { readonly wait?: number | undefined },
): Promise<void> {
  const { outcome } = response;
  const isFailure =
    outcome === DeploymentOutcome.FAILED ||
    outcome === DeploymentOutcome.CRASHED ||
    outcome === DeploymentOutcome.UNDONE ||
    (outcome !== DeploymentOutcome.RUNNING && wait !== undefined);
  const text = (await describe(session, response)).join("\n");
  if (output.format !== undefined || !isFailure) {
    await printResponse(output, response, text);
  }
  if (isFailure) {
    throw new CliFailure(text, { exitCode: exitCodes.notRunning });
  }
}

async function describe(session: Session, response: SetFlowsResponse): Promise<string[]> {
  const { rev, outcome, undoneRev, mergedRev } = response;
  const revision = `revision ${shortRev(rev)}`;
  const deployed = `Deployed ${revision}${mergedRev === "" ? "" : `, merged with ${shortRev(mergedRev)}`}`;
  switch (outcome) {
    case DeploymentOutcome.RUNNING:
      return [`${deployed}. Its flows are running.`];
    case DeploymentOutcome.FAILED:
    case DeploymentOutcome.CRASHED:
      return [
        `${deployed}, but its flows do not run: ${await findReason(session, rev, response)}`,
        "Correct them and deploy again, or deploy the previous ones with flowgate undo.",
      ];
    case DeploymentOutcome.UNDONE:
      return [
        `The flows of revision ${shortRev(undoneRev)} do not run: ${await findReason(session, undoneRev, response)}`,
        `The previous ones were deployed again, as ${revision}.`,
      ];
    case DeploymentOutcome.REPLACED:
      return [`${deployed}. A newer deployment has replaced it.`];
    default:
      return [`${deployed}. It is not known yet whether its flows run: see flowgate status.`];
  }
}

/** The response has no reason but missing types; the history has, for those who may read it. */
async function findReason({ revisions }: Session, rev: string, { missingTypes }: SetFlowsResponse): Promise<string> {
  const known =
    missingTypes.length > 0
      ? `these node types are not installed: ${missingTypes.join(", ")}`
      : "the log of the service has the reason";
  try {
    const { outcomeMessage } = await revisions.getRevision({ rev });
    return printable(outcomeMessage || known);
  } catch (error) {
    if (error instanceof ConnectError) {
      return printable(known);
    }
    throw error;
  }
}
