import { timestampFromDate, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { type Event, EventSchema } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import type { ClientSession } from "../client/session.ts";
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
  // What is recorded after this position is in the list or in the stream, or in both.
  const position = follow === true ? await findPosition(session) : undefined;
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
    const oldest = nextPageToken === "" ? undefined : logs.at(-1);
    const isLeftOut = (event: Event): boolean =>
      logs.some((log) => isSame(log, event)) || isBefore(event, oldest, since);
    await printEvents(context, { ...filter, after: position ?? "" }, { withState: false, isLeftOut });
  } else if (logs.length === 0) {
    process.stderr.write("flowgate: Nothing was recorded that matches.\n");
  }
}

/** A replica records events some time after they were published, when later ones of others may have been recorded. */
const overlapMs = 10_000;

/** The last position before which all events are recorded. */
async function findPosition(session: ClientSession): Promise<string | undefined> {
  const [last] = (await session.logs.listLogs({ pageSize: 1 })).logs;
  if (last?.time === undefined) {
    return last?.id;
  }
  const until = timestampFromMs(timestampMs(last.time) - overlapMs);
  const [before] = (await session.logs.listLogs({ pageSize: 1, until })).logs;
  return (before ?? last).id;
}

function isSame(one: Event, other: Event): boolean {
  return one.id === other.id && one.runtime === other.runtime;
}

/** True if an event is older than what was asked for: by its time, or since a list that is not complete begins with `oldest`. */
function isBefore({ id, time }: Event, oldest: Event | undefined, since: Date | undefined): boolean {
  const isTooOld = since !== undefined && time !== undefined && timestampMs(time) < since.getTime();
  return isTooOld || (oldest !== undefined && id < oldest.id);
}
