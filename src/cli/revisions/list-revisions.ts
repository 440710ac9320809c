import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import {
  DeploymentOutcomeSchema,
  ListRevisionsResponseSchema,
  type Revision,
  RevisionCauseSchema,
} from "@flowgate/client";
import { printable } from "../output/printable.ts";
import type { ClientContext } from "../client/client-action.ts";
import { enumValue, enumWord } from "../output/enum-word.ts";
import type { Output } from "../output/output.ts";
import { formatTime } from "../output/time.ts";
import { shortRev } from "./find-revision.ts";
import { styleOutcome } from "./style-outcome.ts";

export type HistoryFlags = {
  readonly limit: number;
  readonly pageToken?: string;
  readonly user?: string;
  readonly outcome?: string;
  readonly pinned?: true;
  readonly since?: Date;
  readonly until?: Date;
};

/** Prints a page of the history. */
export async function listRevisions({ session, output }: ClientContext, flags: HistoryFlags): Promise<void> {
  const { limit, pageToken = "", user = "", outcome = "", pinned, since, until } = flags;
  const page = await session.revisions.listRevisions({
    pageSize: limit,
    pageToken,
    user,
    outcome: enumValue(DeploymentOutcomeSchema, outcome),
    ...(pinned !== undefined && { pinned }),
    ...(since !== undefined && { startTime: timestampFromDate(since) }),
    ...(until !== undefined && { endTime: timestampFromDate(until) }),
  });
  output.message(ListRevisionsResponseSchema, page, () => formatRevisions(page.revisions, output));
  if (output.format === undefined && page.nextPageToken !== "") {
    process.stderr.write(`More: repeat with --page-token ${page.nextPageToken}\n`);
  }
}

function formatRevisions(revisions: readonly Revision[], output: Output): string {
  if (revisions.length === 0) {
    return "No revisions.";
  }
  return output.table(
    ["", "REV", "TIME", "USER", "CAUSE", "OUTCOME", "NODES", "MESSAGE"],
    revisions.map(({ rev, active, createTime, user, cause, restoredRev, outcome, nodeCount, pinned, message }) => [
      active ? "*" : "",
      shortRev(rev),
      formatTime(createTime),
      printable(user),
      `${enumWord(RevisionCauseSchema, cause)}${restoredRev === "" ? "" : ` of ${shortRev(restoredRev)}`}`,
      styleOutcome(outcome, output),
      String(nodeCount),
      `${pinned ? output.style("cyan", "[pinned] ") : ""}${printable(message)}`,
    ]),
  );
}
