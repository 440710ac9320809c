import {
  DeploymentTypeSchema,
  type DiffRevisionResponse,
  DiffRevisionResponseSchema,
  type Revision,
  RevisionSchema,
} from "@flowgate/client";
import { printable } from "../printable.ts";
import type { ClientContext } from "../client/client-action.ts";
import { styleDiff } from "../output/changes.ts";
import { enumWord } from "../output/enum-word.ts";
import type { Output } from "../output/output.ts";
import { formatTime } from "../output/time.ts";
import { describeCause } from "./describe-cause.ts";
import { describeCaller } from "./describe-revision.ts";
import { findRevision } from "./find-revision.ts";
import { styleOutcome } from "./style-outcome.ts";

/** Prints a revision, and what it changed in its parent. */
export async function showRevision({ session, output }: ClientContext, name: string): Promise<void> {
  const revision = await findRevision(session, name);
  const diff = await session.revisions.diffRevision({ rev: revision.rev });
  output.value(
    output.format && (await toValue(revision, diff)),
    () => `${formatRevision(revision, output)}\n\n${styleDiff(diff.text, output)}`,
  );
}

async function toValue(revision: Revision, diff: DiffRevisionResponse): Promise<unknown> {
  const { toRestJson } = await import("../output/rest-json.ts");
  return { revision: toRestJson(RevisionSchema, revision), diff: toRestJson(DiffRevisionResponseSchema, diff) };
}

function formatRevision(revision: Revision, output: Output): string {
  const { rev, active, pinned, parent, createTime, clientAddress, protocol, message } = revision;
  const marks = [...(active ? ["active"] : []), ...(pinned ? ["pinned"] : [])].join(", ");
  return [
    output.style("bold", `revision ${rev}${marks === "" ? "" : ` (${marks})`}`),
    output.fields([
      ["Deployed", formatTime(createTime)],
      ["By", joinParts(", ", describeCaller(revision), clientAddress, protocol)],
      ["Cause", describeCause(revision)],
      ["Type", enumWord(DeploymentTypeSchema, revision.deploymentType)],
      ["Outcome", joinParts(": ", styleOutcome(revision.outcome, output), printable(revision.outcomeMessage))],
      ["Parent", parent],
      ["Nodes", `${revision.nodeCount} (${revision.sizeBytes} bytes)`],
      ["Message", printable(message)],
    ]),
  ].join("\n");
}

function joinParts(separator: string, ...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(separator);
}
