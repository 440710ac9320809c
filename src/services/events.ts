import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { type Event, EventKind, type EventsService, type WatchEventsRequest } from "../../gen/flowgate/v1/events_pb.ts";
import type { LogsService } from "../../gen/flowgate/v1/logs_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf, principalKey } from "../auth/caller.ts";
import { insufficientScope } from "../auth/errors.ts";
import type { OpenCalls } from "../auth/open-calls.ts";
import { allows } from "../auth/permissions.ts";
import { FlowgateError } from "../errors.ts";
import { type EventCase, type EventFilter, eventCases, matches, readFilter, recordedCases } from "../live/events.ts";
import type { EventHub, WatchStart } from "../live/hub.ts";
import type { Journal, JournalEvents } from "../live/journal.ts";
import { formatPosition, parsePosition, positionBefore } from "../live/position.ts";
import type { JournalCursor } from "../store/journal-store.ts";
import { readPageSize, readTimestampMs } from "./lists.ts";

type EventsServiceOptions = {
  readonly hub: EventHub;
  readonly journal: Pick<Journal, "cases" | "list">;
  readonly audit: Pick<AuditRecorder, "record">;
  /** Ends the streams of callers who lose their access. */
  readonly calls: Pick<OpenCalls, "add">;
};

export function eventsService(options: EventsServiceOptions): ServiceImpl<typeof EventsService> {
  return {
    watchEvents(request, context) {
      const filter = readFilter(request, allowedCases(options, request, context));
      const observers = new DisposableStack();
      const start = startOf(options, request, filter);
      const stream = options.hub.watch(filter, { ...start, onEnd: () => observers.dispose() });
      observers.use(
        options.calls.add(context, {
          permissions: filter.cases.has("debug") ? ["events.read", "debug.read"] : ["events.read"],
          end: (error) => stream.end(error),
        }),
      );
      return stream;
    },
  };
}

/** What a stream begins with, so that there is a first event at once, and with it a response. */
function startOf(
  { hub, journal }: Pick<EventsServiceOptions, "hub" | "journal">,
  request: WatchEventsRequest,
  filter: EventFilter,
): WatchStart {
  const afterSeq = readStart(request, hub.lastSeq);
  // Another replica may have published events since the last one of this service, but none in the future.
  const isUnknown =
    afterSeq !== undefined && afterSeq > Math.max(hub.lastSeq, positionBefore(Date.now() + clockSkewMs));
  if (afterSeq === undefined || isUnknown) {
    return {
      before: [
        ...(isUnknown ? [hub.control(hub.lastSeq, { case: "dropped", value: { reason: "expired" } })] : []),
        ...hub.states().filter((event) => matches(filter, event)),
        hub.control(hub.lastSeq, { case: "snapshotEnd", value: {} }),
      ],
    };
  }
  const resumed = hub.control(afterSeq, { case: "bookmark", value: {} });
  const { startSeq } = hub;
  return afterSeq >= startSeq
    ? { before: [resumed], afterSeq }
    : { afterSeq: startSeq, lead: replay({ hub, journal }, filter, { resumed, afterSeq, untilSeq: startSeq }) };
}

/** By how much the clocks of replicas may differ. */
const clockSkewMs = 60_000;

export function logsService(journal: Pick<Journal, "list">): ServiceImpl<typeof LogsService> {
  return {
    async listLogs(request) {
      const { events, next } = await journal.list(readFilter(request, recordedCases), {
        limit: readPageSize(request.pageSize),
        after: parseLogCursor(request.pageToken),
        fromMs: readTimestampMs("since", request.since),
        untilMs: readTimestampMs("until", request.until),
      });
      return { logs: [...events], nextPageToken: formatLogCursor(next) };
    },
  };
}

/** The kinds that the caller may read. Throws if the request selects another one. */
function allowedCases(
  { audit }: Pick<EventsServiceOptions, "audit">,
  { kinds }: Pick<WatchEventsRequest, "kinds">,
  context: HandlerContext,
): ReadonlySet<EventCase> {
  const principal = context.values.get(principalKey);
  if (allows(principal.permissions, "debug.read")) {
    return eventCases;
  }
  if (kinds.includes(EventKind.DEBUG)) {
    audit.record({ kind: "permission_denied", origin: originOf(context), detail: "debug.read" });
    throw insufficientScope("debug.read", context.requestHeader.has("authorization"));
  }
  return eventCases.difference(new Set<EventCase>(["debug"]));
}

/** The position after which the stream begins; undefined: now, with the current state before. */
function readStart({ after, lastEventId, since }: WatchEventsRequest, lastSeq: number): number | undefined {
  if (lastEventId !== "") {
    return parsePosition(lastEventId, "Last-Event-ID");
  }
  if (after !== "") {
    return parsePosition(after, "after");
  }
  const sinceMs = readTimestampMs("since", since);
  return sinceMs === undefined ? undefined : Math.min(positionBefore(sinceMs), lastSeq);
}

/** The number of recorded events that are read at once. */
const eventsPerRead = 200;

/** The events between two positions that are not in memory any more: those that are recorded, and what is known of the others. */
async function* replay(
  { hub, journal }: Pick<EventsServiceOptions, "hub" | "journal">,
  filter: EventFilter,
  { resumed, afterSeq, untilSeq }: { readonly resumed: Event; readonly afterSeq: number; readonly untilSeq: number },
): AsyncGenerator<Event> {
  yield resumed;
  let hasGap = filter.cases.difference(journal.cases).size > 0;
  const [oldest] = (await journal.list({ cases: journal.cases }, { limit: 1, order: "oldest" })).events;
  hasGap ||= oldest === undefined || parsePosition(oldest.id, "id") > afterSeq;
  let next: JournalCursor | undefined;
  do {
    const page: JournalEvents = await journal.list(filter, {
      limit: eventsPerRead,
      order: "oldest",
      afterSeq,
      after: next,
    });
    yield* page.events.filter(({ id }) => parsePosition(id, "id") <= untilSeq);
    ({ next } = page);
  } while (next !== undefined && next.seq < untilSeq);
  if (hasGap) {
    yield hub.control(untilSeq, { case: "dropped", value: { reason: "expired" } });
    // What was lost does not matter where the last one is known.
    const isOld = ({ id, kind }: Event): boolean => kind.case === "nodeStatus" && parsePosition(id, "id") <= untilSeq;
    yield* hub.states().filter((event) => isOld(event) && matches(filter, event));
  }
}

function formatLogCursor(cursor: JournalCursor | undefined): string {
  return cursor === undefined
    ? ""
    : Buffer.from(`${formatPosition(cursor.seq)} ${cursor.runtime}`).toString("base64url");
}

function parseLogCursor(token: string): JournalCursor | undefined {
  if (token === "") {
    return undefined;
  }
  const [, seq, runtime] = /^([0-9a-z]{1,11}) (.*)$/s.exec(Buffer.from(token, "base64url").toString()) ?? [];
  if (seq === undefined || runtime === undefined) {
    throw new FlowgateError("invalid_argument", "pageToken: must be the nextPageToken of the previous page");
  }
  return { seq: parsePosition(seq, "pageToken"), runtime };
}
