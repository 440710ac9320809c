import { expect, test } from "vitest";
import { toJsonString } from "@bufbuild/protobuf";
import { type Event, EventSchema, LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { FlowLog, type FlowLogOptions } from "../../src/live/flow-log.ts";
import { EventHub } from "../../src/live/hub.ts";
import { Redactor } from "../../src/live/redactor.ts";
import { credentials } from "../runtime/builders.ts";

function start(options: Partial<FlowLogOptions> = {}) {
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const events: Event[] = [];
  hub.onEvent((event) => void events.push(event));
  const redactor = new Redactor([credentials({ a: { password: "hunter2" } })]);
  const flowLog = new FlowLog({ hub, redactor: () => redactor, rev: () => "r1", level: "info", ...options });
  return { flowLog, events };
}

const node = { nodeId: "f", nodeType: "function", nodeName: "Divide", flowId: "t" };

test("errors and warnings of nodes are node errors, all else is a log", () => {
  const { flowLog, events } = start();
  flowLog.publish({ level: "error", message: "1/0", ...node });
  flowLog.publish({ level: "warn", message: "careful", ...node });
  flowLog.publish({ level: "info", message: "fine", ...node });
  flowLog.publish({ level: "error", message: "of no node" });
  expect(events).toMatchObject([
    { rev: "r1", ...node, kind: { case: "nodeError", value: { level: LogLevel.ERROR, message: "1/0", count: 1 } } },
    { ...node, kind: { case: "nodeError", value: { level: LogLevel.WARN, message: "careful" } } },
    { ...node, kind: { case: "log", value: { level: LogLevel.INFO, message: "fine" } } },
    { nodeId: "", kind: { case: "log", value: { level: LogLevel.ERROR, message: "of no node" } } },
  ]);
});

test("entries that are more verbose than the log are not published", () => {
  const { flowLog, events } = start();
  flowLog.publish({ level: "debug", message: "verbose" });
  expect(events).toEqual([]);
  const verbose = start({ level: "debug" });
  verbose.flowLog.publish({ level: "debug", message: "verbose" });
  expect(verbose.events).toMatchObject([{ kind: { value: { level: LogLevel.DEBUG } } }]);
});

test("the calls of an error are separate, without those inside of the runtime", () => {
  const { flowLog, events } = start();
  const message = [
    "Error: boom",
    "    at Function node:f [F]:2:45",
    "    at Script.runInContext (node:vm:150:12)",
    "    at node:internal/main:1:1",
    "    at processMessage (/app/node_modules/@node-red/nodes/core/function/10-function.js:504:37)",
  ].join("\n");
  flowLog.publish({ level: "error", message, ...node });
  expect(events).toMatchObject([
    { kind: { value: { message: "Error: boom", stack: "    at Function node:f [F]:2:45", truncated: false } } },
  ]);
});

test("values of credentials are replaced in each text of the flows", () => {
  const { flowLog, events } = start();
  const entry = {
    message: "Error: hunter2\n    at hunter2:1:1",
    nodeId: "hunter2",
    nodeType: "hunter2",
    nodeName: "hunter2",
  };
  flowLog.publish({ level: "error", flowId: "hunter2", ...entry });
  flowLog.publish({ level: "info", ...entry });
  // Cut within the value.
  flowLog.publish({ level: "info", message: `${"x".repeat(8192 - 5)}hunte` });
  expect(events).toHaveLength(3);
  expect(events.map((event) => toJsonString(EventSchema, event)).join("\n")).not.toContain("hunte");
});

test("what exceeds the budget of events is counted, by kind", () => {
  let nowMs = 0;
  const { flowLog, events } = start({ events: { perSecond: 10, burst: 3 }, now: () => nowMs });
  for (let at = 0; at < 5; at++) {
    flowLog.publish({ level: "info", message: String(at) });
    flowLog.publish({ level: "error", message: String(at), ...node });
  }
  flowLog.drop("log", 100);
  expect(events).toHaveLength(3);
  nowMs = 100;
  flowLog.publish({ level: "info", message: "again" });
  flowLog[Symbol.dispose]();
  expect(events.slice(3)).toMatchObject([
    { kind: { value: { message: "again" } } },
    { kind: { case: "dropped", value: { reason: "flood", count: 107, kinds: { log: 103, nodeError: 4 } } } },
  ]);
});

test("what exceeds the budget of characters is counted", () => {
  const { flowLog, events } = start({ chars: { perSecond: 1, burst: 10 }, now: () => 0 });
  flowLog.publish({ level: "info", message: "x".repeat(8) });
  flowLog.publish({ level: "info", message: "x".repeat(8) });
  flowLog.publish({ level: "info", message: "xx" });
  flowLog[Symbol.dispose]();
  expect(events).toMatchObject([
    { kind: { case: "log" } },
    { kind: { case: "log" } },
    { kind: { case: "dropped", value: { count: 1 } } },
  ]);
});
