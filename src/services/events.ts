import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { type Event, EventKind, type EventsService, type WatchEventsRequest } from "../../gen/flowgate/v1/events_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf, principalKey } from "../auth/caller.ts";
import { insufficientScope } from "../auth/errors.ts";
import type { OpenCalls } from "../auth/open-calls.ts";
import { allows } from "../auth/permissions.ts";
import {
  type EventCase,
  type EventFilter,
  eventCases,
  identify,
  matches,
  readFilter,
  wantsDebug,
} from "../events/events.ts";
import type { EventFeed, JoinedFeed } from "../events/feed.ts";
import { type Journal, recordedBetween } from "../events/journal.ts";
import { latestSeq, parsePosition, positionBefore } from "../events/position.ts";
import type { WatchStart } from "../events/ring.ts";
import type { StreamEntry, Lead } from "../events/stream.ts";
import { readTimestampMs } from "./lists.ts";

type EventsServiceOptions = {
  /** Opens the events for a reader that starts after a position; undefined: now. */
  readonly join: (afterSeq: number | undefined) => JoinedFeed;
  readonly journal: Pick<Journal, "cases" | "list">;
  readonly audit: Pick<AuditRecorder, "record">;
  /** Ends the streams of callers who lose their access. */
  readonly calls: Pick<OpenCalls, "add">;
};

export function eventsService(options: EventsServiceOptions): ServiceImpl<typeof EventsService> {
  return {
    watchEvents(request, context) {
      const filter = readFilter(request, allowedCases(options, request, context));
      const afterSeq = readStart(request);
      const observers = new DisposableStack();
      const { feed, ready } = observers.use(options.join(afterSeq));
      const watch: Watch = { feed, journal: options.journal, filter, afterSeq };
      const start = ready === undefined ? startOf(watch) : { lead: leadWhenReady(watch, ready) };
      const stream = feed.watch(filter, { ...start, onEnd: () => observers.dispose() });
      observers.use(
        options.calls.add(context, {
          permissions: [
            "events.read",
            ...guarded.filter((each) => filter.cases.has(each.case)).map(({ permission }) => permission),
          ],
          end: (error) => stream.end(error),
        }),
      );
      return stream;
    },
  };
}

type Watch = Pick<EventsServiceOptions, "journal"> & {
  readonly feed: EventFeed;
  readonly filter: EventFilter;
  /** Undefined: the stream starts with the current state. */
  readonly afterSeq: number | undefined;
};

/** Returns the first events of a stream, so that it starts with a response at once. */
function startOf(watch: Watch): WatchStart {
  const { feed, filter, afterSeq } = watch;
  const isUnknown = isInFuture(watch);
  if (afterSeq === undefined || isUnknown) {
    return {
      before: [
        ...(isUnknown ? [feed.control(feed.lastSeq, { case: "dropped", value: { reason: "expired" } })] : []),
        ...feed.states().filter((event) => matches(filter, event)),
        ...feed.missing(),
        feed.control(feed.lastSeq, { case: "snapshotEnd", value: {} }),
      ],
    };
  }
  const { startSeq } = feed;
  const before = [
    feed.control(afterSeq, { case: "bookmark", value: {} }),
    ...feed.missing(),
    ...(afterSeq >= startSeq && lacksDebug(watch, afterSeq)
      ? [feed.control(afterSeq, { case: "dropped", value: { reason: "expired" } })]
      : []),
  ];
  return afterSeq >= startSeq
    ? { before, afterSeq }
    : { afterSeq: startSeq, lead: () => replay(watch, { before, afterSeq, untilSeq: startSeq }) };
}

function lacksDebug({ feed, filter }: Watch, afterSeq: number): boolean {
  return wantsDebug(filter) && afterSeq < feed.debugSeq;
}

/** Another replica may have published events since the last one of this service, but none in the future. */
function isInFuture({ feed, afterSeq }: Watch): boolean {
  return afterSeq !== undefined && afterSeq > Math.max(feed.lastSeq, latestSeq(Date.now()));
}

/** The same when the other replicas were reached. */
function leadWhenReady(watch: Watch, ready: Promise<void>): Lead {
  return async function* lead(seek) {
    const { feed, afterSeq } = watch;
    const hasBookmark = afterSeq !== undefined && !isInFuture(watch);
    if (hasBookmark) {
      yield feed.control(afterSeq, { case: "bookmark", value: {} });
    }
    await ready;
    const start = startOf(watch);
    seek(start.afterSeq ?? feed.lastSeq);
    let isFirst = hasBookmark;
    for await (const event of start.lead?.(seek) ?? start.before ?? []) {
      if (!isFirst) {
        yield event;
      }
      isFirst = false;
    }
  };
}

/** The kinds that require a permission besides `events.read`, since they contain the data that flows process. */
const guarded: readonly { readonly kind: EventKind; readonly case: EventCase; readonly permission: string }[] = [
  { kind: EventKind.DEBUG, case: "debug", permission: "debug.read" },
  { kind: EventKind.EDITOR_MESSAGE, case: "editorMessage", permission: "debug.read" },
  { kind: EventKind.LOG, case: "log", permission: "logs.read" },
];

/** The kinds that the caller may read, without the editor's kinds. Throws if the request selects another one. */
function allowedCases(
  { audit }: Pick<EventsServiceOptions, "audit">,
  { kinds }: Pick<WatchEventsRequest, "kinds">,
  context: HandlerContext,
): ReadonlySet<EventCase> {
  const { permissions } = context.values.get(principalKey);
  const forbidden = guarded.filter(({ permission }) => !allows(permissions, permission));
  const refused = forbidden.find(({ kind }) => kinds.includes(kind));
  if (refused !== undefined) {
    audit.record({ kind: "permission_denied", origin: originOf(context), detail: refused.permission });
    throw insufficientScope(refused.permission, context.requestHeader.has("authorization"));
  }
  return eventCases.difference(new Set<EventCase>(["editorMessage", ...forbidden.map((each) => each.case)]));
}

/** The position after which the stream begins; undefined: now, with the current state before. */
function readStart({ after, lastEventId, since }: WatchEventsRequest): number | undefined {
  if (lastEventId !== "") {
    return parsePosition(lastEventId, "Last-Event-ID");
  }
  if (after !== "") {
    return parsePosition(after, "after");
  }
  const sinceMs = readTimestampMs("since", since);
  return sinceMs === undefined ? undefined : positionBefore(Math.min(sinceMs, Date.now()));
}

type Replay = { readonly before: readonly Event[]; readonly afterSeq: number; readonly untilSeq: number };

/**
 * The events between two positions of which some are not in memory: events in memory, recorded events, and notices
 * about the others.
 */
function replay(watch: Watch, range: Replay): AsyncGenerator<Event, void> {
  const { feed, filter } = watch;
  // Taken at once, since the stream continues after them.
  const known = feed.between(range.afterSeq, range.untilSeq).filter(({ event }) => matches(filter, event));
  const isComplete = feed.hasAllAfter(range.afterSeq) && !lacksDebug(watch, range.afterSeq);
  return merge(watch, range, known, isComplete);
}

async function* merge(
  { feed, journal, filter }: Watch,
  { before, afterSeq, untilSeq }: Replay,
  known: readonly StreamEntry[],
  isComplete: boolean,
): AsyncGenerator<Event, void> {
  yield* before;
  const hasOthers = filter.cases.difference(journal.cases).size > 0;
  let hasGap = !isComplete && hasOthers;
  if (!isComplete) {
    const [oldest] = (await journal.list({ cases: journal.cases }, { limit: 1, order: "oldest" })).events;
    hasGap ||= oldest === undefined || parsePosition(oldest.id, "id") > afterSeq;
  }
  const isKnown = new Set(known.map(({ event }) => identify(event)));
  let at = 0;
  for await (const { seq, event } of recordedBetween(journal, filter, { afterSeq, untilSeq })) {
    if (!isKnown.has(identify(event))) {
      for (; at < known.length && (known[at] as StreamEntry).seq < seq; at += 1) {
        yield (known[at] as StreamEntry).event;
      }
      yield event;
      // It comes from a replica that is not there any more, of which other events may be missing.
      hasGap ||= hasOthers;
    }
  }
  yield* known.slice(at).map(({ event }) => event);
  if (hasGap) {
    yield feed.control(untilSeq, { case: "dropped", value: { reason: "expired" } });
    // What was lost does not matter where the last one is known.
    const isOld = ({ id, kind }: Event): boolean => kind.case === "nodeStatus" && parsePosition(id, "id") <= untilSeq;
    yield* feed.states().filter((event) => isOld(event) && matches(filter, event));
  }
}
