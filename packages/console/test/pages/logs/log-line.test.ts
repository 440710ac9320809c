import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { DeploymentOutcome, EventSchema, LogLevel, ProposalState, RuntimeState } from "@flowgate/client";
import { expect, test } from "vitest";
import { contains, type LogLine, toLine, toText } from "../../../src/pages/logs/log-line.ts";

type Init = Exclude<MessageInitShape<typeof EventSchema>, { readonly $typeName: string }>;

function lineOf(kind: NonNullable<Init["kind"]>, event: Init = {}): LogLine {
  const line = toLine(create(EventSchema, { id: "1", time: timestampFromMs(0), kind, ...event }));
  if (line === undefined) {
    throw new Error("it is not shown");
  }
  return line;
}

test.each<[NonNullable<Init["kind"]>, Partial<LogLine>]>([
  [
    { case: "log", value: { level: LogLevel.WARN, message: "slow", count: 3 } },
    { word: "warn", tone: "warn", message: "slow ×3", details: "" },
  ],
  [
    {
      case: "nodeError",
      value: { level: LogLevel.ERROR, message: "no id", stack: "  at f1:2:14", line: 2, column: 14, caught: true },
    },
    {
      word: "error",
      tone: "bad",
      message: "no id",
      details: "line 2, column 14\ncaught by a catch node\n  at f1:2:14",
    },
  ],
  [
    { case: "nodeError", value: { level: LogLevel.ERROR, message: "first\nsecond" } },
    { message: "first", details: "first\nsecond" },
  ],
  [
    {
      case: "debug",
      value: { topic: "t", property: "payload", format: "Object", value: `{"a":[1]}`, truncated: true },
    },
    { word: "debug", message: `t · payload: {"a":[1]}`, details: `Object\n{\n  "a": [\n    1\n  ]\n}\n(shortened)` },
  ],
  [
    {
      case: "debug",
      value: {
        format: "Object",
        value: `{"a":{"__enc__":true,"type":"undefined"},"b":{"__enc__":true,"type":"map","data":{"k":1},"length":1}}`,
      },
    },
    {
      message: `{"a":undefined,"b":Map(1) {"k" => 1}}`,
      details: `Object\n{\n  "a": undefined,\n  "b": Map(1) {\n    "k" => 1\n  }\n}`,
    },
  ],
  [
    { case: "debug", value: { format: "bigint", value: "123" } },
    { message: "123n", details: "bigint\n123n" },
  ],
  [
    { case: "debug", value: { value: "{not JSON" } },
    { message: "{not JSON", details: "{not JSON" },
  ],
  [
    { case: "deployment", value: { outcome: DeploymentOutcome.FAILED, user: "ada", message: "m", failure: "why" } },
    { word: "failed", tone: "bad", message: "Deployed by ada: m", details: "why", rev: "r" },
  ],
  [
    { case: "runtimeState", value: { state: RuntimeState.SAFE, message: "crashed" } },
    { word: "safe mode", message: "crashed", rev: "r" },
  ],
  [
    { case: "nodeStatus", value: { text: "lost", fill: "red", shape: "ring" } },
    { message: "[red ring] lost", rev: "" },
  ],
  [{ case: "nodeStatus", value: {} }, { message: "cleared" }],
  [
    { case: "module", value: { action: "install", name: "m", version: "1.0.0", state: "failed", message: "why" } },
    { tone: "bad", message: "install m@1.0.0: failed", details: "why" },
  ],
  [{ case: "token", value: { action: "created", subject: "ci", user: "ada" } }, { message: "created: ci, by ada" }],
  [
    { case: "users", value: { action: "rejected", detail: "why" } },
    { tone: "bad", details: "why" },
  ],
  [
    { case: "proposal", value: { id: "p", state: ProposalState.OPEN, user: "ada", message: "m" } },
    { word: "open", message: "p by ada: m" },
  ],
  [
    { case: "dropped", value: { count: 2, reason: "flood" } },
    { word: "missing", message: "2 entries are missing here: the flows have written too many at once" },
  ],
  [{ case: "dropped", value: { reason: "unheard of" } }, { message: "Entries are missing here: unheard of" }],
  [{ case: undefined }, { word: "event", message: "" }],
])("%j", (kind, expected) => {
  expect(lineOf(kind, { rev: "r" })).toMatchObject(expected);
});

test("events that say nothing are not shown", () => {
  for (const kind of ["bookmark", "snapshotEnd"] as const) {
    expect(toLine(create(EventSchema, { kind: { case: kind, value: {} } }))).toBeUndefined();
  }
});

test("the node is linked on its tab: the instance of its subflow, if it is in one", () => {
  const log = { case: "log", value: {} } as const;
  const node = { nodeId: "n/1", nodeType: "function", flowId: "t 1", flowLabel: "Orders" };
  expect(lineOf(log, node)).toMatchObject({ node: "function n/1", nodePath: "/flows/t%201?node=n%2F1", tab: "Orders" });
  expect(lineOf(log, { ...node, nodeName: "parse", subflowPath: ["s", "u"] })).toMatchObject({
    node: "parse",
    nodePath: "/flows/t%201?node=s",
  });
  expect(lineOf(log, { nodeId: "c", nodeType: "broker" })).toMatchObject({ nodePath: "/flows?node=c", tab: "" });
  expect(lineOf(log)).toMatchObject({ node: "", nodePath: "" });
});

test("characters that hide or reorder text are visible", () => {
  const line = lineOf(
    { case: "nodeError", value: { level: LogLevel.ERROR, message: "a\u202eb\u001b[8m", stack: "x\u0000\n\ty" } },
    { nodeId: "n", nodeName: "n\u200b", flowLabel: "t\u0007" },
  );
  expect(line).toMatchObject({
    message: String.raw`a\u{202e}b\u{1b}[8m`,
    details: `x${String.raw`\u{0}`}\n  y`,
    node: String.raw`n\u{200b}`,
    tab: String.raw`t\u{7}`,
  });
});

test("finds a text in all that is shown of an entry, whatever its case", () => {
  const line = lineOf(
    { case: "nodeError", value: { level: LogLevel.ERROR, message: "No Id", stack: "at Parse" } },
    { nodeId: "n", nodeName: "Orders", flowLabel: "Shop" },
  );
  expect(["", "no id", "at parse", "orders", "shop", "error"].map((text) => contains(line, text))).toEqual(
    Array.from({ length: 6 }, () => true),
  );
  expect(contains(line, "other")).toBe(false);
});

test("as a text file, entries are in the order in which they happened, with their details", () => {
  const newer = lineOf(
    { case: "nodeError", value: { level: LogLevel.ERROR, message: "failed", stack: "at a\nat b" } },
    { nodeId: "n", nodeName: "parse", flowLabel: "Orders", runtime: "one", time: timestampFromMs(1_000) },
  );
  const older = lineOf({ case: "log", value: { level: LogLevel.INFO, message: "started" } });
  expect(toText([newer, older])).toBe(
    [
      "1970-01-01T00:00:00.000Z info started",
      "1970-01-01T00:00:01.000Z error [one / Orders / parse] failed",
      "    at a",
      "    at b",
    ].join("\n"),
  );
});
