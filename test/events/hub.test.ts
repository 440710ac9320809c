import { expect, test } from "vitest";
import { type Event, LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { eventCases, type EventFilter, type EventInit } from "../../src/events/events.ts";
import { EventHub, type EventHubOptions } from "../../src/events/hub.ts";
import { parsePosition, positionBefore } from "../../src/events/position.ts";
import type { EventStream } from "../../src/events/stream.ts";

const all: EventFilter = { cases: eventCases };

function createHub(options: Partial<EventHubOptions> = {}): EventHub {
  return new EventHub({ runtime: "", lastSeq: 0, now: () => 1_000_000, ...options });
}

const log = (message: string, level: LogLevel = LogLevel.INFO): EventInit => ({
  kind: { case: "log", value: { level, message } },
});
const status = (nodeId: string, text: string): EventInit => ({ nodeId, kind: { case: "nodeStatus", value: { text } } });
const error = (message: string): EventInit => ({
  nodeId: "f",
  nodeType: "function",
  nodeName: "Divide",
  flowId: "t",
  kind: { case: "nodeError", value: { level: LogLevel.ERROR, message } },
});

/** What a client sees of an event. */
function describe({ kind }: Event): string {
  switch (kind.case) {
    case "log":
    case "nodeError":
      return `${kind.case} ${kind.value.message}`;
    case "nodeStatus":
      return `${kind.case} ${kind.value.text}`;
    case "dropped":
      return `dropped ${kind.value.count} (${kind.value.reason}) ${JSON.stringify(kind.value.kinds)}`;
    default:
      return String(kind.case);
  }
}

async function take(stream: EventStream, count: number): Promise<string[]> {
  const events: string[] = [];
  while (events.length < count) {
    const { done, value } = await stream.next();
    if (done === true) {
      return [...events, "end"];
    }
    events.push(describe(value));
  }
  return events;
}

test("the memory of recent events counts each text of a node", () => {
  const hub = createHub({ capacityBytes: 1_000_000 });
  const long = "x".repeat(1_000);
  const node = {
    nodeId: long,
    nodeType: long,
    nodeName: long,
    flowId: long,
    flowLabel: long,
    subflowPath: [long, long],
  };
  for (let at = 0; at < 200; at++) {
    hub.publish({ ...log("one"), ...node });
  }
  expect(hub.between(0, hub.lastSeq).length).toBeLessThan(1_000_000 / 14_000);
});

test.each<[what: string, event: EventInit, kind: string]>([
  ["a lone surrogate", status("f", "\ud83d"), "nodeStatus"],
  ["a number out of range", { kind: { case: "runtimeState", value: { line: 2 ** 32 } } }, "runtimeState"],
])("an event that can't be encoded because of %s is counted as dropped, and is no state", async (_, invalid, kind) => {
  const errors: unknown[] = [];
  const hub = createHub({ log: { error: (fields: unknown) => void errors.push(fields) } });
  const stream = hub.watch(all);
  hub.publish(invalid);
  hub.remember(invalid);
  hub.publish(log("next"));
  expect(await take(stream, 2)).toEqual([`dropped 1 (not_encoded) {"${kind}":1}`, "log next"]);
  expect(hub.states()).toEqual([]);
  expect(errors).toMatchObject([{ kind }, { kind }]);
});

test("a stream has the events after its start, in order, whether it waits for them or not", async () => {
  const hub = createHub();
  hub.publish(log("before"));
  const stream = hub.watch(all);
  const first = take(stream, 1);
  hub.publish(log("one"));
  hub.publish(log("two"));
  hub.publish(log("three"));
  expect([...(await first), ...(await take(stream, 2))]).toEqual(["log one", "log two", "log three"]);
});

test("all streams have the same frozen message, so that it is encoded once", async () => {
  const hub = createHub();
  const streams = [hub.watch(all), hub.watch(all)];
  const published = hub.publish(log("one"));
  const received = await Promise.all(streams.map(async (stream) => (await stream.next()).value));
  expect(received[0]).toBe(published);
  expect(received[1]).toBe(published);
  expect(Object.isFrozen(published)).toBe(true);
});

test("ids are increasing, also if the clock goes back and after a restart", () => {
  let nowMs = 5_000;
  const now = (): number => nowMs;
  const hub = createHub({ now });
  const ids = [hub.publish(log("one")), hub.publish(log("two"))];
  nowMs = 1_000;
  ids.push(hub.publish(log("three")));
  const next = createHub({ now, lastSeq: hub.lastSeq });
  ids.push(next.publish(log("four")));
  const seqs = ids.map(({ id }) => parsePosition(id, "after"));
  expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
  expect(new Set(seqs).size).toBe(4);
});

test("a stream resumes after any event that is in memory", async () => {
  const hub = createHub();
  const events = ["one", "two", "three"].map((text) => hub.publish(log(text)));
  const after = parsePosition(events[0]?.id ?? "", "after");
  expect(await take(hub.watch(all, { afterSeq: after }), 2)).toEqual(["log two", "log three"]);
  expect(await take(hub.watch(all, { afterSeq: positionBefore(1_000_000) }), 3)).toEqual([
    "log one",
    "log two",
    "log three",
  ]);
});

test.each<[string, Omit<EventFilter, "cases">, string[]]>([
  ["the id of a node", { node: "f" }, ["nodeError 1/0"]],
  ["the name of a node", { node: "Divide" }, ["nodeError 1/0"]],
  ["the type of a node", { node: "function" }, ["nodeError 1/0"]],
  ["a tab", { tab: "t" }, ["nodeError 1/0"]],
  ["a level", { level: LogLevel.WARN }, ["nodeStatus ok", "log careful", "nodeError 1/0"]],
])("a stream is filtered by %s", async (_, filter, expected) => {
  const hub = createHub();
  const stream = hub.watch({ ...all, ...filter });
  for (const init of [status("s", "ok"), log("fine"), log("careful", LogLevel.WARN), error("1/0")]) {
    hub.publish(init);
  }
  expect(await take(stream, expected.length)).toEqual(expected);
});

test("a stream whose reader is slow is told how many events of which kind it has missed, and where", async () => {
  const hub = createHub({ capacityBytes: 5_500 });
  const stream = hub.watch(all);
  const other = hub.watch({ cases: new Set(["log"] as const) });
  for (const text of ["1", "2", "3", "4", "5", "6"]) {
    hub.publish(text === "2" ? error(text) : log(text));
  }
  expect(await take(stream, 6)).toEqual([
    'dropped 1 (slow_reader) {"log":1}',
    "nodeError 2",
    "log 3",
    "log 4",
    "log 5",
    "log 6",
  ]);
  expect((await take(other, 1))[0]).toBe('dropped 1 (slow_reader) {"log":1}');
});

test("a stream gives way to the event loop while it has many events, and misses none", async () => {
  const hub = createHub({ deliveriesPerSecond: 10_000 });
  const stream = hub.watch(all, { afterSeq: 0 });
  const texts = Array.from({ length: 1_000 }, (_, at) => `log ${at}`);
  for (const text of texts) {
    hub.publish(log(text.slice("log ".length)));
  }
  const first: string[] = [];
  const poll = () => stream.poll(() => {});
  for (let result = poll(); result?.value !== undefined; result = poll()) {
    first.push(describe(result.value));
  }
  expect(first.length).toBeLessThan(500);
  hub.publish(log("last"));
  expect([...first, ...(await take(stream, 1_001 - first.length))]).toEqual([...texts, "log last"]);
});

test("many events are divided among the streams, but each has all errors", async () => {
  let nowMs = 1_000_000;
  const hub = createHub({ deliveriesPerSecond: 40, now: () => nowMs });
  const streams = [hub.watch(all), hub.watch(all)];
  for (let at = 0; at < 100; at++) {
    hub.publish(log(String(at)));
  }
  hub.publish(error("seen"));
  for (const stream of streams) {
    const events = await take(stream, 42);
    expect(events.slice(0, 40)).toEqual(Array.from({ length: 40 }, (_, at) => `log ${at}`));
    expect(events.slice(40)).toEqual(['dropped 60 (flood) {"log":60}', "nodeError seen"]);
  }
  nowMs += 1_000;
  hub.publish(log("again"));
  expect(await take(streams[0] as EventStream, 1)).toEqual(["log again"]);
});

test("a bookmark is sent to streams that wait, with the position of the last event, after what was missed", async () => {
  const hub = createHub({ deliveriesPerSecond: 10 });
  const stream = hub.watch(all);
  const first = take(stream, 20);
  for (let at = 0; at < 25; at++) {
    hub.publish(log(String(at)));
  }
  await first;
  const next = stream.next();
  hub.bookmark();
  expect(describe((await next).value as Event)).toBe('dropped 5 (flood) {"log":5}');
  const bookmark = (await stream.next()).value as Event;
  expect(describe(bookmark)).toBe("bookmark");
  expect(parsePosition(bookmark.id, "after")).toBe(hub.lastSeq);
});

test("a bookmark is sent to a stream that reads later, also if events that it does not have came after it", async () => {
  const hub = createHub();
  const stream = hub.watch({ cases: new Set(["nodeError"] as const) });
  const { id } = hub.publish(error("1/0"));
  hub.bookmark();
  hub.publish(log("one"));
  expect(await take(stream, 1)).toEqual(["nodeError 1/0"]);
  expect((await stream.next()).value).toMatchObject({ id, kind: { case: "bookmark" } });
});

test("a snapshot has the last event about each state, with its own id", () => {
  const hub = createHub();
  hub.publish(status("a", "old"));
  const b = hub.publish(status("b", "only"));
  const a = hub.publish(status("a", "new"));
  hub.publish(log("no state"));
  expect(hub.states()).toEqual([b, a]);
  hub.forget(({ nodeId }) => nodeId === "b");
  expect(hub.states()).toEqual([a]);
});

test("a stream ends when it is returned, and when the hub is closed", async () => {
  const hub = createHub();
  const [returned, closed] = [hub.watch(all), hub.watch(all)];
  await returned.return();
  expect(hub.streamCount).toBe(1);
  const waiting = take(closed, 1);
  hub.close();
  expect(await waiting).toEqual(["end"]);
  expect(await take(returned, 1)).toEqual(["end"]);
  expect(hub.streamCount).toBe(0);
});

test("a stream that is ended with an error has no further events", async () => {
  const hub = createHub();
  const [waiting, reading] = [hub.watch(all), hub.watch(all)];
  const next = waiting.next();
  hub.close(new Error("closing"));
  await expect(next).rejects.toThrow("closing");
  await expect(reading.next()).rejects.toThrow("closing");
  expect(await reading.return()).toEqual({ done: true, value: undefined });
  expect(await take(reading, 1)).toEqual(["end"]);
});

test("a state can be known without being an event", () => {
  const hub = createHub();
  const stream = hub.watch(all);
  const next = stream.next();
  hub.remember(status("a", "at the start"));
  const event = hub.publish(log("first"));
  expect(hub.states()).toMatchObject([{ nodeId: "a", kind: { value: { text: "at the start" } } }]);
  expect(parsePosition(hub.states()[0]?.id ?? "", "after")).toBeLessThan(parsePosition(event.id, "after"));
  return expect(next).resolves.toEqual({ done: false, value: event });
});

test("the end of a stream is reported once", async () => {
  const hub = createHub();
  let ends = 0;
  const stream = hub.watch(all, { onEnd: () => void ends++ });
  await stream.return();
  hub.close();
  expect(ends).toBe(1);
});

test("a hub that is renamed keeps its states, under the new name", () => {
  const hub = createHub({ runtime: "host:0" });
  hub.remember(status("a", "before"));
  hub.rename("host:1");
  expect(hub.states()).toMatchObject([{ runtime: "host:1", nodeId: "a" }]);
  hub.publish(status("a", "after"));
  expect(hub.states()).toMatchObject([{ runtime: "host:1", kind: { value: { text: "after" } } }]);
});
