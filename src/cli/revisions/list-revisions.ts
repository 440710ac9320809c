import { create } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { DeploymentOutcomeSchema, ListRevisionsResponseSchema, type Revision } from "@flowgate/client";
import { collectPages, noteMore } from "../output/pages.ts";
import { printable } from "../printable.ts";
import type { ClientContext } from "../client/client-action.ts";
import { enumValue } from "../output/enum-word.ts";
import type { Output } from "../output/output.ts";
import { formatTime } from "../output/time.ts";
import { describeCause } from "./describe-cause.ts";
import { describeCaller, shortRev } from "./describe-revision.ts";
import { styleOutcome } from "./style-outcome.ts";

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
    outcome: enumValue(DeploymentOutcomeSchema, outcome),
    ...(pinned !== undefined && { pinned }),
    ...(since !== undefined && { startTime: timestampFromDate(since) }),
    ...(until !== undefined && { endTime: timestampFromDate(until) }),
  };
  const listed = await collectPages(limit, async (page) => {
    const { revisions, nextPageToken } = await session.revisions.listRevisions({ ...filter, ...page });
    return { items: revisions, nextPageToken };
  });
  const response = create(ListRevisionsResponseSchema, { revisions: [...listed.items] });
  output.message(ListRevisionsResponseSchema, response, () => formatRevisions(listed.items, output));
  noteMore(listed);
}

function formatRevisions(revisions: readonly Revision[], output: Output): string {
  if (revisions.length === 0) {
    return "There are no such revisions.";
  }
  return output.table(
    ["", "REV", "TIME", "USER", "CAUSE", "OUTCOME", "NODES", "MESSAGE"],
    revisions.map((revision) => {
      const { rev, active, createTime, outcome, nodeCount, pinned, message } = revision;
      return [
        active ? "*" : "",
        shortRev(rev),
        formatTime(createTime),
        describeCaller(revision),
        describeCause(revision, shortRev),
        styleOutcome(outcome, output),
        String(nodeCount),
        `${pinned ? output.style("cyan", "[pinned] ") : ""}${printable(message)}`,
      ];
    }),
  );
}
