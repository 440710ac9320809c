import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import {
  DeploymentOutcomeSchema,
  DeploymentTypeSchema,
  DiffRevisionResponseSchema,
  ListRevisionsResponseSchema,
  type Revision,
  RevisionCause,
  RevisionCauseSchema,
  RevisionSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { type ClientSession, unless } from "../client/session.ts";
import { CliFailure } from "../failure.ts";
import { styleDiff } from "../output/changes.ts";
import { fetchList, findByBeginning, printList } from "../output/list.ts";
import type { Cell, Output } from "../output/output.ts";
import {
  describeCaller,
  describeCause,
  describeRestarts,
  describeRevision,
  formatEnum,
  formatMinute,
  formatTime,
  parseEnum,
  shortRev,
  styleOutcome,
} from "../output/values.ts";

export type HistoryFlags = {
  readonly limit: number;
  readonly user?: string;
  readonly outcome?: string;
  readonly pinned?: true;
  readonly since?: Date;
  readonly until?: Date;
};

/** Prints the newest part of the history. */
export async function listRevisions({ session, output }: ClientContext, flags: HistoryFlags): Promise<void> {
  const { limit, user = "", outcome = "", pinned, since, until } = flags;
  const filter = {
    user,
    outcome: parseEnum(DeploymentOutcomeSchema, outcome),
    ...(pinned !== undefined && { pinned }),
    ...(since !== undefined && { startTime: timestampFromDate(since) }),
    ...(until !== undefined && { endTime: timestampFromDate(until) }),
  };
  await printList(output, {
    schema: ListRevisionsResponseSchema,
    limit,
    fetchPage: (page) => session.revisions.listRevisions({ ...filter, ...page }),
    itemsOf: ({ revisions }) => revisions,
    none: "There are no such revisions.",
    head: ["", "REV", "TIME", "USER", "CAUSE", "OUTCOME", "MESSAGE"],
    shortened: ["USER", "CAUSE", "MESSAGE"],
    toRow,
  });
}

function toRow(revision: Revision): Cell[] {
  const { rev, active, createTime, cause, outcome, restarts, pinned, message } = revision;
  return [
    active ? "*" : "",
    shortRev(rev),
    formatMinute(createTime),
    describeCaller(revision),
    cause === RevisionCause.DEPLOYMENT ? "" : formatEnum(RevisionCauseSchema, cause),
    [styleOutcome(outcome), describeRestarts(restarts)],
    [{ style: "cyan", text: pinned ? "[pinned] " : "" }, message],
  ];
}

/** Prints a revision, and what it changed in its parent. */
export async function showRevision({ session, output }: ClientContext, name: string): Promise<void> {
  const revision = await findRevision(session, name);
  const diff = await session.revisions.diffRevision({ rev: revision.rev });
  output.messages(
    { revision: [RevisionSchema, revision], diff: [DiffRevisionResponseSchema, diff] },
    () => `${formatRevision(revision, output)}\n\n${styleDiff(diff, output)}`,
  );
}

function formatRevision(revision: Revision, output: Output): string {
  const { rev, active, pinned, parent, createTime, clientAddress, protocol, message } = revision;
  const { outcome, outcomeMessage, restarts } = revision;
  const marks = [...(active ? ["active"] : []), ...(pinned ? ["pinned"] : [])].join(", ");
  return [
    output.style("bold", `revision ${rev}${marks === "" ? "" : ` (${marks})`}`),
    output.fields([
      ["Deployed", formatTime(createTime)],
      ["By", [describeCaller(revision), clientAddress, protocol].filter((part) => part !== "").join(", ")],
      ["Approved by", describeApproval(revision)],
      ["Cause", describeCause(revision)],
      ["Type", formatEnum(DeploymentTypeSchema, revision.deploymentType)],
      [
        "Outcome",
        [styleOutcome(outcome), describeRestarts(restarts), outcomeMessage === "" ? "" : `: ${outcomeMessage}`],
      ],
      ["Parent", parent],
      ["Nodes", `${revision.nodeCount} (${revision.sizeBytes} bytes)`],
      ["Message", message],
    ]),
  ].join("\n");
}

/** `bob (token ci), proposal 8c1f52a09b7d3e64` */
function describeApproval({ proposalId, approvedBy, approvedByTokenName }: Revision): string {
  return proposalId === ""
    ? ""
    : `${describeCaller({ user: approvedBy, tokenName: approvedByTokenName })}, proposal ${proposalId}`;
}

/** Pins a revision, and replaces its message if there is a new one. */
export function pin(context: ClientContext, name: string, flags: { readonly message?: string }): Promise<void> {
  return update(context, name, { ...flags, pinned: true });
}

export function unpin(context: ClientContext, name: string): Promise<void> {
  return update(context, name, { pinned: false });
}

export function setMessage(context: ClientContext, name: string, message: string): Promise<void> {
  return update(context, name, { message });
}

async function update(
  { session, output }: ClientContext,
  name: string,
  change: { readonly pinned?: boolean; readonly message?: string },
): Promise<void> {
  const { rev } = await findRevision(session, name);
  const revision = await session.revisions.updateRevision({ rev, ...change });
  const state = revision.pinned ? "pinned" : "not pinned";
  output.message(RevisionSchema, revision, () => `${describeRevision(revision)} is ${state}.`);
}

/**
 * Finds a revision by how people name it: `@` or `active`; `@~2`, two before the active one; its rev, or the beginning of that.
 */
export async function findRevision(session: ClientSession, name: string): Promise<Revision> {
  const [isRelative, steps = "0"] = /^(?:@|active)(?:~(\d{1,6}))?$/.exec(name) ?? [];
  if (isRelative === undefined) {
    return (
      (await unless(Code.NotFound, session.revisions.getRevision({ rev: name }))) ??
      findByBeginning(await readNewest(session, Infinity), name, ({ rev }) => rev, "revision", "flowgate history")
    );
  }
  const index = Number(steps);
  const newest = await readNewest(session, index + 1);
  const found = newest[index];
  if (found === undefined) {
    throw new CliFailure(`${name}: the history has ${newest.length} revisions only. List them with flowgate history.`);
  }
  return found;
}

async function readNewest({ revisions }: ClientSession, limit: number): Promise<Revision[]> {
  const list = await fetchList(
    limit,
    (page) => revisions.listRevisions(page),
    (response) => response.revisions,
  );
  return list.revisions;
}
