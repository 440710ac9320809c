import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { DeploymentOutcome, type Revision, type SetFlowsResponse, SetFlowsResponseSchema } from "@flowgate/client";
import type { Output } from "../output/output.ts";
import { printable } from "../printable.ts";
import type { ClientContext } from "../client/client-action.ts";
import type { Session } from "../client/session.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { shortRev } from "../revisions/describe-revision.ts";
import { printResponse } from "./print-response.ts";

/** Prints the outcome of a deployment. Throws a CliFailure if its flows do not run, or not yet although the caller waited. */
export async function reportOutcome(
  { session, output }: ClientContext,
  response: SetFlowsResponse,
  { wait }: { readonly wait?: number | undefined },
): Promise<void> {
  const isFailure =
    isNotRunning(response.outcome) || (response.outcome !== DeploymentOutcome.RUNNING && wait !== undefined);
  await finish(output, response, await describe(session, response), isFailure);
}

/** Prints that the active revision has the flows to deploy. Throws a CliFailure if they do not run. */
export async function reportUnchanged(
  { output }: ClientContext,
  { rev, outcome, outcomeMessage }: Pick<Revision, "rev" | "outcome" | "outcomeMessage">,
  { wait }: { readonly wait?: number | undefined },
): Promise<void> {
  const unchanged = `No changes: revision ${shortRev(rev)} remains active`;
  const isPending = outcome === DeploymentOutcome.PENDING;
  const text = isNotRunning(outcome)
    ? [`${unchanged}, but its flows do not run: ${printable(outcomeMessage || "see flowgate status")}`, remedy]
    : [isPending ? `${unchanged}. ${unknown}` : `${unchanged}.`];
  const isFailure = isNotRunning(outcome) || (isPending && wait !== undefined);
  await finish(output, create(SetFlowsResponseSchema, { rev, outcome }), text, isFailure);
}

const remedy = "Correct them and deploy again, or deploy the previous ones with flowgate undo.";
const unknown = "It is not known yet whether its flows run: see flowgate status.";

function isNotRunning(outcome: DeploymentOutcome): boolean {
  return (
    outcome === DeploymentOutcome.FAILED ||
    outcome === DeploymentOutcome.CRASHED ||
    outcome === DeploymentOutcome.UNDONE
  );
}

async function finish(
  output: Output,
  response: SetFlowsResponse,
  lines: readonly string[],
  isFailure: boolean,
): Promise<void> {
  const text = lines.join("\n");
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
      return [`${deployed}, but its flows do not run: ${await findReason(session, rev, response)}`, remedy];
    case DeploymentOutcome.UNDONE:
      return [
        `The flows of revision ${shortRev(undoneRev)} do not run: ${await findReason(session, undoneRev, response)}`,
        `The previous ones were deployed again, as ${revision}.`,
      ];
    case DeploymentOutcome.REPLACED:
      return [`${deployed}. A newer deployment has replaced it.`];
    default:
      return [`${deployed}. ${unknown}`];
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
