import { expect, test, vi } from "vitest";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { type Event, EventSchema, LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { FlowEvents, type FlowEventsOptions } from "../../src/events/flow-events.ts";
import { EventHub } from "../../src/events/hub.ts";
import type { NodeEvent } from "@flowgate/runtime";

function start(options: Partial<FlowEventsOptions> = {}) {
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const events: Event[] = [];
  hub.onEvent((event) => void events.push(event));
  const flows = new FlowEvents({ hub, rev: () => "r1", level: "info", ...options });
  const publish = (...published: NodeEvent[]) => flows.publishNodes({ kind: "nodes", events: published });
  return { flows, events, hub, publish };
}

const node = { nodeId: "f", nodeType: "function", nodeName: "Divide", flowId: "t", flowLabel: "Main" };
const inner = { ...node, subflowPath: ["s1", "s2"] };
const error = { kind: "error", level: "error", message: "Error: boom", count: 1 } as const;
const unlimited = { perSecond: 1e9, burst: 1e9 };

test("each thing that happens to a node is an event with the node's place", () => {
  const { events, publish } = start();
  publish(
    { ...error, ...inner, stack: "    at Function node:f:1:7", line: 1, column: 7, count: 3, caught: true },
    { kind: "error", ...node, level: "warn", message: "careful", count: 1, truncated: true },
    { kind: "status", ...node, text: "connected", fill: "green", shape: "dot" },
    { kind: "debug", ...node, topic: "a/b", property: "payload", format: "string[2]", value: "hi" },
  );
  expect(events).toMatchObject([
    {
      rev: "r1",
      ...inner,
      kind: {
        case: "nodeError",
        value: { level: LogLevel.ERROR, message: "Error: boom", line: 1, column: 7, count: 3, caught: true },
      },
    },
    { ...node, kind: { case: "nodeError", value: { level: LogLevel.WARN, caught: false, truncated: true } } },
    { ...node, kind: { case: "nodeStatus", value: { text: "connected", fill: "green", shape: "dot" } } },
    { kind: { case: "debug", value: { topic: "a/b", property: "payload", format: "string[2]", value: "hi" } } },
  ]);
});

test("what a module publishes for editors is an event, and a state if it is retained", () => {
  const { flows, events, hub, publish } = start();
  const data = (all: readonly Event[]) =>
    all.map(({ kind }) => kind.case === "editorMessage" && [kind.value.topic, kind.value.data, kind.value.retained]);
  publish(
    { kind: "editor", topic: "say/this", json: `{"n":[1,"<b>"]}` },
    { kind: "editor", topic: "kept", json: "1", retained: true },
    { kind: "editor", topic: "kept too", json: "1", retained: true },
    { kind: "editor", topic: "kept", json: "2", retained: true },
  );
  expect(data(events)).toEqual([
    ["say/this", `{"n":[1,"<b>"]}`, false],
    ["kept", "1", true],
    ["kept too", "1", true],
    ["kept", "2", true],
  ]);
  expect(data(hub.states())).toEqual([
    ["kept too", "1", true],
    ["kept", "2", true],
  ]);
  publish({ kind: "editor", topic: "kept too", json: "3" });
  expect(data(hub.states())).toEqual([["kept", "2", true]]);
  flows.end();
  expect(hub.states()).toEqual([]);
  expect(data(events.slice(-1))).toEqual([["kept", "", false]]);
});

test("at most 100 messages to editors are retained", () => {
  const { hub, publish } = start({ rates: { events: unlimited, chars: unlimited } });
  for (let at = 0; at < 200; at += 1) {
    publish({ kind: "editor", topic: `t${at}`, json: "1", retained: true });
  }
  expect(hub.states()).toHaveLength(100);
});

test("a log entry is an event, except errors and warnings of nodes, which are reported as such", () => {
  const { flows, events } = start();
  flows.publishLog({ level: "error", message: "1/0", ...node });
  flows.publishLog({ level: "warn", message: "careful", ...node });
  flows.publishLog({ level: "info", message: "fine", ...node });
  flows.publishLog({ level: "error", message: "of no node" });
  expect(events).toMatchObject([
    { ...node, kind: { case: "log", value: { level: LogLevel.INFO, message: "fine" } } },
    { nodeId: "", kind: { case: "log", value: { level: LogLevel.ERROR, message: "of no node" } } },
  ]);
});

test("entries that are more verbose than the log are not published", () => {
  const { flows, events } = start();
  flows.publishLog({ level: "debug", message: "verbose" });
  expect(events).toEqual([]);
  const verbose = start({ level: "debug" });
  verbose.flows.publishLog({ level: "debug", message: "verbose" });
  expect(verbose.events).toMatchObject([{ kind: { value: { level: LogLevel.DEBUG } } }]);
});

test("a snapshot has the last status of each node, until it is cleared or the process ends", () => {
  const { flows, hub, events, publish } = start();
  const texts = () => hub.states().map(({ nodeId, kind }) => [nodeId, kind.case === "nodeStatus" && kind.value.text]);
  publish({ kind: "status", ...node, text: "one" }, { kind: "status", ...inner, text: "inner" });
  publish({ kind: "status", ...node, text: "two" });
  publish({ kind: "status", ...node, nodeId: "g", text: "g" });
  expect(texts()).toEqual([
    ["f", "inner"],
    ["f", "two"],
    ["g", "g"],
  ]);
  publish({ kind: "status", ...node });
  expect(texts()).toEqual([
    ["f", "inner"],
    ["g", "g"],
  ]);
  flows.end();
  expect(texts()).toEqual([]);
  expect(events.slice(-2)).toMatchObject([
    { ...inner, kind: { case: "nodeStatus", value: { text: "" } } },
    { nodeId: "g", kind: { case: "nodeStatus", value: { text: "" } } },
  ]);
});

test("many statuses are cleared in several turns of the event loop, but not those that are set again", async () => {
  const { flows, hub, events, publish } = start({ rates: { events: unlimited, chars: unlimited } });
  const ids = Array.from({ length: 1_000 }, (_, at) => String(at));
  publish(...ids.map((nodeId) => ({ kind: "status" as const, nodeId, text: "on" })));
  flows.end();
  expect(hub.states()).toEqual([]);
  expect(events.length).toBeLessThan(1_500);
  publish({ kind: "status", nodeId: "999", text: "again" });
  await vi.waitFor(() => expect(events).toHaveLength(2_000));
  const last = new Map(events.map(({ nodeId, kind }) => [nodeId, kind.case === "nodeStatus" && kind.value.text]));
  expect(last).toEqual(new Map(ids.map((nodeId) => [nodeId, nodeId === "999" ? "again" : ""])));
});

test("a status that was never set is not cleared", () => {
  const { events, publish } = start();
  publish({ kind: "status", ...node });
  expect(events).toEqual([]);
});

test("the last error of a node is cut between characters", () => {
  const { flows, publish } = start();
  const text = `x${"😀".repeat(600)}`;
  publish({ ...error, ...node, message: text, stack: text });
  const [state] = flows.nodes.all();
  expect(state?.lastError?.message.length).toBe(1_000);
  expect(JSON.stringify(state)).not.toMatch(/\\ud[89a-f]/);
});

test("each kind has a budget, and what exceeds it is counted", () => {
  let nowMs = 0;
  const events = { perSecond: 10, burst: 3 };
  const { flows, events: published, publish } = start({ rates: { events, chars: unlimited }, now: () => nowMs });
  for (let at = 0; at < 5; at++) {
    flows.publishLog({ level: "info", message: String(at) });
    publish({ ...error, ...node, message: String(at), count: 10 });
  }
  flows.publishNodes({ kind: "nodes", events: [], dropped: { error: 7, debug: 1, status: 2 } });
  flows.publishLog({ level: "warn", message: "100 were dropped", dropped: 100 });
  expect(published).toHaveLength(6);
  nowMs = 100;
  flows.publishLog({ level: "info", message: "again" });
  flows[Symbol.dispose]();
  const kinds = { log: 102, nodeError: 27, debug: 1, nodeStatus: 2 };
  expect(published.slice(6)).toMatchObject([
    { kind: { value: { message: "again" } } },
    { kind: { case: "dropped", value: { reason: "flood", count: 132, kinds } } },
  ]);
});

test("counts that flows forge fit into events", () => {
  const { flows, events, publish } = start();
  const max = 2 ** 32 - 1;
  flows.publishNodes({ kind: "nodes", events: [], dropped: { error: max, debug: max } });
  flows.publishNodes({ kind: "nodes", events: [], dropped: { error: max, debug: max } });
  publish({ ...error, ...node, line: max, column: max, count: max });
  flows[Symbol.dispose]();
  expect(events.map((event) => fromBinary(EventSchema, toBinary(EventSchema, event)).kind.value)).toMatchObject([
    { line: max, column: max, count: max },
    { count: max, kinds: { nodeError: max, debug: max } },
  ]);
});

test("what exceeds the budget of characters is counted", () => {
  const rates = { events: unlimited, chars: { perSecond: 1, burst: 10 } };
  const { flows, events } = start({ rates, now: () => 0 });
  flows.publishLog({ level: "info", message: "x".repeat(8) });
  flows.publishLog({ level: "info", message: "x".repeat(8) });
  flows.publishLog({ level: "info", message: "xx" });
  flows[Symbol.dispose]();
  expect(events).toMatchObject([
    { kind: { case: "log" } },
    { kind: { case: "log" } },
    { kind: { case: "dropped", value: { count: 1 } } },
  ]);
});

test("of statuses that are too many, the last one is published later", async () => {
  let nowMs = 0;
  const rates = { events: { perSecond: 1_000, burst: 1 }, chars: unlimited };
  const { hub, events, publish } = start({ rates, now: () => nowMs });
  const { promise, resolve } = Promise.withResolvers<void>();
  hub.onEvent(() => events.length === 2 && resolve());
  publish(...["one", "two", "three"].map((text) => ({ kind: "status", ...node, text }) as const));
  nowMs = 10;
  await promise;
  expect(events.map(({ kind }) => kind.value)).toMatchObject([{ text: "one" }, { text: "three" }]);
});

test("statuses that are too many wait in bounded number, and are tried as far as the budget permits", async () => {
  let nowMs = 0;
  let times = 0;
  const { flows, hub, events, publish } = start({
    rates: { events: { perSecond: 1_000, burst: 1 }, chars: unlimited },
    now: () => {
      times += 1;
      return nowMs;
    },
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  hub.onEvent(() => events.length === 2 && resolve());
  for (let at = 0; at < 12_000; at++) {
    publish({ kind: "status", nodeId: String(at), text: "on" });
  }
  nowMs = 1;
  times = 0;
  await promise;
  expect(events.map(({ nodeId }) => nodeId)).toEqual(["0", "1"]);
  expect(times).toBeLessThan(20);
  flows[Symbol.dispose]();
  expect(events[2]?.kind).toMatchObject({ case: "dropped", value: { kinds: { nodeStatus: 1_999 } } });
});

test("the names of a node count towards the budget of characters", () => {
  const { flows, events, publish } = start({ rates: { events: unlimited, chars: { perSecond: 1, burst: 100 } } });
  const long = "x".repeat(60);
  publish({ ...error, nodeId: "f", flowLabel: long, nodeName: long });
  publish({ kind: "status", nodeId: "f", subflowPath: [long, long], text: "on" });
  flows[Symbol.dispose]();
  expect(events).toMatchObject([{ kind: { case: "dropped", value: { kinds: { nodeError: 1 } } } }]);
});

test("flows that make up nodes with long names fill a bounded memory", () => {
  const { hub, flows, publish } = start({ rates: { events: unlimited, chars: unlimited } });
  const path = Array.from({ length: 16 }, () => "x".repeat(256));
  for (let at = 0; at < 5_000; at++) {
    publish({ kind: "status", nodeId: String(at), nodeName: "x".repeat(256), subflowPath: path, text: "on" });
    publish({ ...error, ...node, nodeId: String(-at), message: "x".repeat(8_000) });
  }
  const charsOf = (value: unknown): number => JSON.stringify(value).length;
  expect(flows.nodes.all().length).toBeGreaterThan(100);
  expect(charsOf(flows.nodes.all())).toBeLessThan(5 * 1024 * 1024);
  expect(hub.states().reduce((sum, { subflowPath }) => sum + charsOf(subflowPath), 0)).toBeLessThan(4 * 1024 * 1024);
  // A node that is known can change.
  publish({ kind: "status", nodeId: "0", subflowPath: path, text: "ok" });
  expect(flows.nodes.all()[0]?.status?.text).toBe("ok");
  flows.end();
  publish({ kind: "status", nodeId: "0", subflowPath: path, text: "on" });
  expect(flows.nodes.all()).toHaveLength(1);
});

test("flows that make up nodes fill a bounded memory", () => {
  const { hub, flows, publish } = start({ rates: { events: unlimited, chars: unlimited } });
  for (let at = 0; at < 21_000; at++) {
    publish({ kind: "status", nodeId: String(at), text: "on" });
  }
  expect([hub.states().length, flows.nodes.all().length]).toEqual([20_000, 20_000]);
});

test("what is known of a node counts from its start, and a warning does not hide an error", () => {
  const { flows, publish } = start();
  publish(
    { ...error, ...node },
    { ...error, ...node, level: "warn", message: "careful" },
    { kind: "counts", ...node, messages: 3, errors: 1, warnings: 1, lastMessageMs: 5 },
    { kind: "status", ...node, text: "on" },
    { kind: "counts", ...inner, messages: 1, errors: 0, warnings: 0 },
  );
  expect(flows.nodes.all()).toMatchObject([
    { node, messages: 3, errors: 1, warnings: 1, lastMessageMs: 5, lastError: { message: "Error: boom" } },
    { node: inner, messages: 1 },
  ]);
  expect(flows.nodes.countFailing()).toBe(1);
  publish({ kind: "stopped", ...node }, { kind: "stopped", ...inner });
  expect(flows.nodes.all()).toMatchObject([{ node, status: { text: "on" }, errors: 0, lastError: undefined }]);
  expect(flows.nodes.countFailing()).toBe(0);
});
