import { randomUUID } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import {
  type ChangeFlowResponse,
  ChangeFlowResponseSchema,
  DeploymentOutcome,
  DeploymentOutcomeSchema,
  type DeploymentType,
  DeploymentTypeSchema,
  OnFailure,
  type Revision,
  type SetFlowsResponse,
  SetFlowsResponseSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { ifPermitted, type ClientSession } from "../client/session.ts";
import { type DeploymentFlags, defaultWaitSeconds } from "../shared-flags.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Output } from "../output/output.ts";
import { printable } from "../printable.ts";
import { formatEnum, parseEnum, shortRev } from "../output/values.ts";

/** The fields that all requests for a deployment have. */
export function deploymentFields(flags: DeploymentFlags) {
  // With these flags, the service has a default of its own.
  const isDefault = flags.wait === undefined && flags.maxErrors === undefined && flags.undoOnFailure !== true;
  return {
    ...proposalFields(isDefault ? { ...flags, wait: defaultWaitSeconds } : flags),
    // A request that is sent again, because its response was lost, deploys nothing.
    idempotencyKey: randomUUID(),
  };
}

/** Those of a deployment that may be made later. */
export function proposalFields({ message, wait, maxErrors, undoOnFailure, ...flags }: DeploymentFlags) {
  return {
    deploymentType: deploymentType(flags),
    ...(message !== undefined && { message }),
    ...(wait !== undefined && { wait }),
    ...(maxErrors !== undefined && { maxErrors }),
    ...(undoOnFailure === true && { onFailure: OnFailure.UNDO }),
  };
}

export function deploymentType({ type = "" }: Pick<DeploymentFlags, "type">): DeploymentType {
  return parseEnum(DeploymentTypeSchema, type);
}

/** The response to a deployment of all flows, or of one. */
type DeploymentResponse = SetFlowsResponse | ChangeFlowResponse;

/** Deploys, and reports the outcome. Throws a CliFailure unless its flows run. */
export async function finishDeployment(
  context: ClientContext,
  deploy: () => Promise<DeploymentResponse>,
  flags: Pick<DeploymentFlags, "wait">,
): Promise<void> {
  await reportOutcome(context, await context.progress.during("Deploying", deploy), flags);
}

/** Prints the outcome of a deployment. Throws a CliFailure if its flows do not run or run with errors, or do not run yet although the caller waited. */
async function reportOutcome(
  { session, output }: ClientContext,
  response: DeploymentResponse,
  { wait }: { readonly wait?: number | undefined },
): Promise<void> {
  const exitCode = exitCodeOf(response.outcome, wait !== undefined && response.outcome !== DeploymentOutcome.RUNNING);
  finish(output, response, await describe(session, response), exitCode);
}

/** Undefined: the command has succeeded. `isAwaited`: outcomes that are not known yet are a failure. */
function exitCodeOf(outcome: DeploymentOutcome, isAwaited: boolean): number | undefined {
  if (outcome === DeploymentOutcome.DEGRADED) {
    return exitCodes.degraded;
  }
  return isNotRunning(outcome) || isAwaited ? exitCodes.notRunning : undefined;
}

/** Prints that the active revision has the flows to deploy. Throws a CliFailure if they do not run. */
export function reportUnchanged(
  { output }: ClientContext,
  { rev, outcome, outcomeMessage }: Pick<Revision, "rev" | "outcome" | "outcomeMessage">,
  { wait }: { readonly wait?: number | undefined },
): void {
  const unchanged = `No changes: revision ${shortRev(rev)} remains active`;
  const note = noteOf(outcome);
  const problem = problemOf(outcome);
  const text =
    problem !== undefined
      ? [`${unchanged}, but ${problem}: ${printable(outcomeMessage || "see flowgate status")}`, remedy]
      : [note === "" ? `${unchanged}.` : `${unchanged}. ${note}`];
  const exitCode = exitCodeOf(outcome, note !== "" && wait !== undefined);
  finish(output, create(SetFlowsResponseSchema, { rev, outcome }), text, exitCode);
}

const remedy = "Correct them and deploy again, or deploy the previous ones with flowgate undo.";

/** Why flows that have not failed may not run. Empty if they do. */
function noteOf(outcome: DeploymentOutcome): string {
  switch (outcome) {
    case DeploymentOutcome.PENDING:
      return "It is not known yet whether its flows run: see flowgate status.";
    case DeploymentOutcome.STOPPED:
      return "The flows are stopped: start them with flowgate start.";
    default:
      return "";
  }
}

function isNotRunning(outcome: DeploymentOutcome): boolean {
  return outcome === DeploymentOutcome.FAILED || outcome === DeploymentOutcome.UNDONE;
}

/** Describes the errors of a deployment that remains active; undefined if there are none. */
function problemOf(outcome: DeploymentOutcome): string | undefined {
  if (outcome === DeploymentOutcome.DEGRADED) {
    return "its flows run with errors";
  }
  return isNotRunning(outcome) ? "its flows do not run" : undefined;
}

/** The flows are deployed, and do not run or run with errors. */
export class UnhealthyDeployment extends CliFailure {}

/** `exitCode` is undefined if the command has succeeded. */
function finish(output: Output, response: DeploymentResponse, lines: readonly string[], exitCode?: number): void {
  const text = lines.join("\n");
  if (output.format !== undefined || exitCode === undefined) {
    printResponse(output, response, text);
  }
  if (exitCode !== undefined) {
    throw new UnhealthyDeployment(text, { exitCode });
  }
}

async function describe(session: ClientSession, response: DeploymentResponse): Promise<string[]> {
  const { rev, outcome, undoneRev } = response;
  const mergedRev = mergedRevOf(response);
  const revision = `revision ${shortRev(rev)}`;
  const deployed = `Deployed ${revision}${mergedRev === "" ? "" : `, merged with ${shortRev(mergedRev)}`}`;
  switch (outcome) {
    case DeploymentOutcome.RUNNING:
      return [`${deployed}. Its flows are running.`];
    case DeploymentOutcome.DEGRADED:
    case DeploymentOutcome.FAILED:
      return [`${deployed}, but ${problemOf(outcome)}: ${await findReason(session, rev, response)}`, remedy];
    case DeploymentOutcome.UNDONE:
      return [
        `The flows of revision ${shortRev(undoneRev)} failed: ${await findReason(session, undoneRev, response)}`,
        `The previous ones were deployed again, as ${revision}.`,
      ];
    case DeploymentOutcome.REPLACED:
      return [`${deployed}. A newer deployment has replaced it.`];
    default:
      return [`${deployed}. ${noteOf(outcome) || noteOf(DeploymentOutcome.PENDING)}`];
  }
}

/** The response has the beginning of the reason; the history has all of it, for those who may read it. */
async function findReason(
  session: ClientSession,
  rev: string,
  { missingTypes, outcomeMessage: reason }: DeploymentResponse,
): Promise<string> {
  const known =
    missingTypes.length > 0
      ? `these node types are not installed: ${missingTypes.join(", ")}`
      : reason || "the log of the service has the reason";
  try {
    const revision = await ifPermitted(session, "revisions.read", () => session.revisions.getRevision({ rev }));
    return printable(revision?.outcomeMessage || known);
  } catch (error) {
    if (error instanceof ConnectError) {
      return printable(known);
    }
    throw error;
  }
}

/** Prints the response to a deployment: for programs with the fields that REST has in headers. */
function printResponse(output: Output, response: DeploymentResponse, text: string): void {
  const { outcome, missingTypes, undoneRev, outcomeMessage } = response;
  const mergedRev = mergedRevOf(response);
  const styled = (): string => output.style("green", text);
  const headers = {
    ...(outcome !== 0 && { outcome: formatEnum(DeploymentOutcomeSchema, outcome) }),
    ...(missingTypes.length > 0 && { missingTypes }),
    ...(undoneRev !== "" && { undoneRev }),
    ...(mergedRev !== "" && { mergedRev }),
    ...(outcomeMessage !== "" && { outcomeMessage }),
  };
  if ("mergedRev" in response) {
    output.message(SetFlowsResponseSchema, response, styled, headers);
  } else {
    output.message(ChangeFlowResponseSchema, response, styled, headers);
  }
}

/** Changes of one flow are not merged. */
function mergedRevOf(response: DeploymentResponse): string {
  return "mergedRev" in response ? response.mergedRev : "";
}
