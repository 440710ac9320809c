import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { type Event, EventKind, EventSchema, EventsService, LogLevel, LogsService } from "@flowgate/client";
import { expect, test } from "vitest";
import { LogFeed, type LogQuery, type LogState } from "../../../src/pages/logs/log-feed.ts";

const query: LogQuery = { kinds: [EventKind.LOG, EventKind.DEBUG], level: LogLevel.UNSPECIFIED, tab: "", node: "" };

/** An event at a time, by which it is named. */
function eventAt(ms: number, id = String(ms), kind: Event["kind"]["case"] = "log"): Event {
  return create(EventSchema, { id, time: timestampFromMs(ms), kind: { case: kind as "log", value: {} } });
}

type Request = { readonly after: string; readonly kinds: readonly EventKind[] };

/** A service with these entries, oldest first, whose streams send what `watch` yields. */
function serve(recorded: readonly Event[], watch: (request: Request) => AsyncGenerator<Event> = silence) {
  const newest = recorded.toReversed();
  return createRouterTransport((router) => {
    router.service(LogsService, {
      listLogs({ since, until, pageSize, pageToken, kinds }) {
        expect(kinds).toEqual([EventKind.LOG]);
        const untilMs = until === undefined ? Infinity : timestampMs(until);
        const sinceMs = since === undefined ? 0 : timestampMs(since);
        const times = newest.map((event) => ({ event, ms: event.time === undefined ? 0 : timestampMs(event.time) }));
        const found = times.filter(({ ms }) => sinceMs <= ms && ms < untilMs).map(({ event }) => event);
        const start = Number(pageToken || 0);
        const end = start + pageSize;
        return { logs: found.slice(start, end), nextPageToken: end < found.length ? String(end) : "" };
      },
    });
    router.service(EventsService, { watchEvents: (request) => watch(request) });
  });
}

async function* silence(): AsyncGenerator<Event> {
  await new Promise(() => {});
  yield* [];
}

type Open = Disposable & {
  readonly feed: LogFeed;
  /** Resolves with the first state that matches. */
  until(matches: (state: LogState) => boolean): Promise<LogState>;
};

function open(transport: ReturnType<typeof serve>, options = {}): Open {
  const waiting = new Set<() => void>();
  let state: LogState | undefined;
  const onChange = (next: LogState): void => {
    state = next;
    waiting.forEach((check) => check());
  };
  const feed = new LogFeed({ transport, query, canList: true, canFollow: true, onChange, ...options });
  return {
    feed,
    until: (matches) =>
      new Promise((resolve) => {
        const check = (): void => {
          if (state !== undefined && matches(state)) {
            waiting.delete(check);
            resolve(state);
          }
        };
        waiting.add(check);
        check();
      }),
    [Symbol.dispose]: () => feed[Symbol.dispose](),
  };
}

const idle = ({ isLoading }: LogState): boolean => !isLoading;
const idsOf = ({ shown }: LogState): string[] => shown.map(({ id }) => id);
const loaded =
  (count: number) =>
  (state: LogState): boolean =>
    idle(state) && state.shown.length === count;

test("loads what was recorded page by page, each entry once, until there is nothing earlier", async () => {
  const recorded = Array.from({ length: 450 }, (_, index) => eventAt(index));
  using opened = open(serve(recorded));
  expect((await opened.until(loaded(200))).earlier).toBe("some");
  await opened.feed.loadEarlier();
  await opened.feed.loadEarlier();
  const state = await opened.until(loaded(450));
  expect(state.earlier).toBe("none");
  expect(idsOf(state)).toEqual(recorded.toReversed().map(({ id }) => id));
});

test("loads all entries of one moment, though they are more than a page", async () => {
  const recorded = Array.from({ length: 450 }, (_, index) => eventAt(7, String(index)));
  using opened = open(serve(recorded));
  await opened.until(loaded(200));
  for (let state = await opened.until(idle); state.earlier === "some"; state = await opened.until(idle)) {
    await opened.feed.loadEarlier();
  }
  const ids = idsOf(await opened.until(idle));
  expect(ids).toHaveLength(450);
  expect(new Set(ids).size).toBe(450);
});

test("has what arrives before what was recorded, each entry once, and continues after the last one", async () => {
  const requests: string[] = [];
  const transport = serve([eventAt(1), eventAt(2)], async function* watch({ after }) {
    requests.push(after);
    if (requests.length === 1) {
      yield eventAt(0, "b", "bookmark");
      yield eventAt(2);
      yield eventAt(3);
      throw new ConnectError("lost", Code.Unavailable);
    }
    yield eventAt(4);
    yield* silence();
  });
  using opened = open(transport);
  const state = await opened.until((each) => idle(each) && each.shown.length === 4);
  expect(idsOf(state)).toEqual(["4", "3", "2", "1"]);
  expect(requests).toEqual(["", "3"]);
  expect(state.connection).toBe("live");
});

test("says what is missing, but not that debug messages of before are", async () => {
  const transport = serve([], async function* watch({ after }) {
    const dropped = (id: string, reason: string) =>
      create(EventSchema, { id, time: timestampFromMs(0), kind: { case: "dropped", value: { reason } } });
    if (after === "") {
      yield eventAt(0, "0", "bookmark");
      yield dropped("1", "expired");
      yield dropped("2", "flood");
      throw new ConnectError("lost", Code.Unavailable);
    }
    yield dropped("3", "expired");
    yield* silence();
  });
  using opened = open(transport);
  expect(idsOf(await opened.until(({ shown }) => shown.length === 2))).toEqual(["3", "2"]);
});

test("without a permission, it does not ask", async () => {
  const transport = createRouterTransport(() => {});
  using opened = open(transport, { canList: false, canFollow: false });
  opened.feed.hold(false);
  expect(await opened.until(() => true)).toMatchObject({ connection: "off", earlier: "none", error: undefined });
});

test("an error is known, and the user can try again", async () => {
  let isDown = true;
  const transport = createRouterTransport((router) => {
    router.service(LogsService, {
      listLogs() {
        if (isDown) {
          throw new ConnectError("not now", Code.Unavailable);
        }
        return { logs: [eventAt(1)] };
      },
    });
    router.service(EventsService, { watchEvents: silence });
  });
  using opened = open(transport);
  expect((await opened.until(({ error }) => error !== undefined)).error).toMatchObject({ rawMessage: "not now" });
  isDown = false;
  await opened.feed.loadEarlier();
  expect(await opened.until(loaded(1))).toMatchObject({ error: undefined, earlier: "none" });
});

test("has the entries between two times, page by page, and does not follow", async () => {
  const recorded = Array.from({ length: 450 }, (_, index) => eventAt(index));
  let watches = 0;
  const transport = serve(recorded, async function* watch() {
    watches += 1;
    yield* silence();
  });
  using opened = open(transport, { query: { ...query, sinceMs: 10, untilMs: 400 } });
  expect((await opened.until(loaded(200))).earlier).toBe("some");
  await opened.feed.loadEarlier();
  const state = await opened.until(loaded(390));
  expect(state).toMatchObject({ earlier: "none", connection: "off" });
  expect([idsOf(state)[0], idsOf(state).at(-1)]).toEqual(["399", "10"]);
  expect(watches).toBe(0);
});

test("follows from a time on", async () => {
  const transport = serve([eventAt(1), eventAt(5)], async function* watch() {
    yield eventAt(2);
    yield eventAt(5);
    yield eventAt(6);
    yield* silence();
  });
  using opened = open(transport, { query: { ...query, sinceMs: 5 } });
  expect(idsOf(await opened.until((each) => idle(each) && each.shown.length === 2))).toEqual(["6", "5"]);
});
