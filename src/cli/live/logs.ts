import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { EventSchema } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { UsageFailure } from "../failure.ts";
import { type PageRequest, fetchList } from "../output/list.ts";
import type { EventFlags } from "../shared-flags.ts";
import { readLogFilter } from "./event-filter.ts";
import { printEvents } from "./events.ts";
import { formatEvent } from "./format-event.ts";

export type LogFlags = EventFlags & {
  readonly follow?: true;
  readonly since?: Date;
  readonly until?: Date;
  readonly limit?: number;
};

const defaultLimit = 100;

/** Prints the last recorded events, the oldest first, and with `follow` those that come. */
export async function showLogs(context: ClientContext, flags: LogFlags): Promise<void> {
  const { follow, since, until, limit = defaultLimit, ...selection } = flags;
  if (follow === true && until !== undefined) {
    throw new UsageFailure("-f waits for what comes, and --until ends before now: use one of them.");
  }
  const { session, output } = context;
  const filter = await readLogFilter(session, selection);
  // What is recorded between this position and the list is in the list or, if that is empty, in the stream.
  const position = follow === true ? (await session.logs.listLogs({ pageSize: 1 })).logs[0]?.id : undefined;
  const request = {
    ...filter,
    ...(since !== undefined && { since: timestampFromDate(since) }),
    ...(until !== undefined && { until: timestampFromDate(until) }),
  };
  const fetchPage = (page: PageRequest) => session.logs.listLogs({ ...request, ...page });
  // The newest first.
  const { logs, nextPageToken } = await fetchList(limit, fetchPage, (response) => response.logs);
  const isAsked = flags.limit !== undefined && since === undefined && until === undefined;
  if (nextPageToken !== "" && !isAsked && follow !== true) {
    process.stderr.write(`flowgate: only the last ${logs.length} are shown: use a larger --limit.\n`);
  }
  for (const event of logs.toReversed()) {
    output.item(EventSchema, event, () => formatEvent(event, output));
  }
  if (follow === true) {
    await printEvents(context, { ...filter, after: logs[0]?.id ?? position ?? "" }, { withState: false });
  } else if (logs.length === 0) {
    process.stderr.write("flowgate: Nothing was recorded that matches.\n");
  }
}
