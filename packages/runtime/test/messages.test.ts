import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { Redactor, compileValues } from "../../../src/events/redaction/redactor.ts";
import { type FromChild, parseFromChild as parse } from "../src/messages.ts";
import { cutText, createReadText } from "../src/node-events.ts";

const parseFromChild = (message: unknown) => parse(message, cutText);

const span = { traceId: "a".repeat(32), spanId: "b".repeat(16), startMs: 1, endMs: 2, nodeId: "n" };

type Kind = FromChild["kind"];

/** Messages of each kind with a text, which can depend on how long it may be, in all fields that can have one. */
const messagesOf: Readonly<Record<Kind, (textOf: (maxChars: number) => string) => readonly object[]>> = {
  heartbeat: () => [{}],
  log: (textOf) => [{ entry: { level: "info", message: textOf(8_192), traceparent: textOf(256), ...nodeOf(textOf) } }],
  nodes(textOf) {
    const name = textOf(256);
    const texts = { message: textOf(8_192), stack: textOf(8_192) };
    const json = JSON.stringify({ [textOf(48_000)]: [textOf(48_000)] }).slice(0, 48_000);
    return [
      { kind: "status", text: textOf(1_000), fill: name, shape: name },
      { kind: "error", level: "error", count: 1, ...texts },
      { kind: "debug", topic: name, property: name, format: name, value: textOf(16_384) },
      { kind: "counts" },
      { kind: "stopped" },
      { kind: "editor", topic: "notification/x", json },
    ].map((event) => ({ events: [{ ...nodeOf(textOf), ...event }] }));
  },
  measurements(textOf) {
    const id = textOf(128);
    return [{ process: {}, tabs: [{ tab: id, label: id }], nodes: [{ tab: id, node: id, type: id }] }];
  },
  spans: (textOf) => [
    { spans: [{ ...span, ...nodeOf(textOf), http: { method: "GET", route: textOf(256), status: 200 } }] },
  ],
  ready: (textOf) => [{ httpPort: 1, nodeTypes: [textOf(256)] }],
  "listen-failed": (textOf) => [{ address: textOf(256).slice(0, 256), code: textOf(256).slice(0, 256) }],
  "modules-loaded": (textOf) => [{ nodeTypes: [textOf(256)] }],
  "deploy-started": () => [{ id: 1 }],
  deployed(textOf) {
    const name = textOf(256);
    return [{ id: 1, failure: textOf(8_192), missingTypes: [name], failedNodes: [name] }];
  },
  reply: (textOf) => [{ id: 1, part: textOf(100), isLast: true }],
  context: (textOf) => [{ part: textOf(100), isLast: true }],
  "node-write": (textOf) => [{ part: textOf(100), isLast: true }],
  crashed: (textOf) => [{ cause: textOf(8_192), fault: { node: nodeOf(textOf), isCertain: true } }],
};

function nodeOf(textOf: (maxChars: number) => string): object {
  const text = textOf(256);
  return { nodeId: text, nodeType: text, nodeName: text, flowId: text, flowLabel: text, subflowPath: [text] };
}

function allMessages(textOf: (maxChars: number) => string): { readonly kind: Kind }[] {
  return (Object.keys(messagesOf) as Kind[]).flatMap((kind) =>
    messagesOf[kind](textOf).map((fields) => ({ kind, ...fields })),
  );
}

/** Each limit, at an odd or an even length, cuts one of them within a character. */
const texts = ["😀".repeat(10_000), `x${"😀".repeat(10_000)}`];

/** Those that have no texts, or none that flows have written. */
const exempt: ReadonlySet<Kind> = new Set([
  "heartbeat",
  "deploy-started",
  "reply",
  "context",
  "node-write",
  "listen-failed",
]);

test.each(texts.flatMap((text) => allMessages(() => text)).filter(({ kind }) => !exempt.has(kind)))(
  "texts of the child are well-formed where they are cut: $kind",
  (message) => {
    const json = JSON.stringify(parseFromChild(message) ?? "😀");
    expect(json).toContain("😀");
    expect(json).not.toMatch(/\\ud[89a-f]/);
  },
);

const redactor = new Redactor([compileValues(["hunter2"])]);
const readText = createReadText(redactor.redact.bind(redactor));

/** Parts of results are redacted when they are complete. Context, credentials and settings are kept for flows. The types of nodes are those of modules. */
const unredacted: ReadonlySet<Kind> = new Set(["reply", "context", "node-write", "ready", "modules-loaded"]);

describe.each([
  ["a value", () => "hunter2"],
  ["a value at which the process has cut the text", (maxChars: number) => `${"x".repeat(maxChars - 5)}hunte`],
  ["a value at which the text is cut", (maxChars: number) => `${"x".repeat(maxChars - 5)}hunter2`],
])("%s is redacted", (_, textOf) => {
  test.each(allMessages(textOf).filter(({ kind }) => !unredacted.has(kind)))("$kind", (message) => {
    // Whatever else is read of it has the value too.
    const parsed = parse(withTexts(message), readText);
    expect(parsed?.kind).toBe(message.kind);
    expect(JSON.stringify(parsed)).not.toContain("hunte");
  });
});

/** The same object, with a value of a credential as each property that it does not have. */
function withTexts(value: unknown): unknown {
  if (typeof value !== "object" || value === null) {
    return value;
  }
  if (Array.isArray(value)) {
    return value.map(withTexts);
  }
  const fields: Record<string, unknown> = Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, withTexts(item)]),
  );
  return new Proxy(fields, { get: (target, name) => target[String(name)] ?? "hunter2" });
}

test("a text that was cut before its end is redacted at its end", () => {
  const event = { kind: "error", nodeId: "n", level: "error", message: "is hunte", stack: "at hunte", truncated: true };
  expect(parse({ kind: "nodes", events: [event] }, readText)).toMatchObject({
    events: [{ message: "is [redacted]", stack: "at [redacted]" }],
  });
});

test("what a module publishes for editors remains JSON", () => {
  const publish = (json: string) =>
    parse({ kind: "nodes", events: [{ kind: "editor", topic: "say/hunter2", json }] }, readText);
  expect(publish(`{"hunter2":["hunter2",104,117,[104,117,110,116,101,114,50],"<b>"]}`)).toMatchObject({
    events: [{ topic: "say/[redacted]", json: `{"[redacted]":["[redacted]",104,117,["[redacted]"],"<b>"]}` }],
  });
  for (const json of ["no JSON", "[".repeat(20_000) + "]".repeat(20_000)]) {
    expect(publish(json)).toEqual({ kind: "nodes", events: [] });
  }
});

test("spans of the child are limited, and those that are not valid are ignored", () => {
  const invalid = [
    { ...span, traceId: "0".repeat(32) },
    { ...span, traceId: "A".repeat(32) },
    { ...span, spanId: "b" },
    { ...span, startMs: Number.POSITIVE_INFINITY },
    { ...span, endMs: "2" },
    { ...span, nodeId: undefined },
    null,
    "span",
  ];
  const http = { method: "GET /secret", route: 1, status: 1e9 };
  const parsed = parseFromChild({
    kind: "spans",
    spans: [...invalid, { ...span, startMs: 3, parentSpanId: "x", http }, ...Array.from({ length: 1_000 }, () => span)],
    dropped: -1,
  });
  expect(parsed).toMatchObject({ kind: "spans", dropped: 0 });
  const { spans } = parsed as unknown as { spans: unknown[] };
  expect(spans[0]).toEqual({ ...span, startMs: 3, endMs: 3, http: { method: "_OTHER", route: "", status: 0 } });
  expect(spans).toHaveLength(492);
  expect(parseFromChild({ kind: "spans", spans: {} })).toBeUndefined();
});

test("a text that is cut does not keep the rest of it in memory", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  const before = process.memoryUsage().heapUsed;
  const kept = Array.from({ length: 1_000 }, (_, at) => {
    const text = JSON.stringify({ kind: "nodes", events: [{ kind: "counts", nodeId: `${at}${"x".repeat(50_000)}` }] });
    return parseFromChild(JSON.parse(text));
  });
  collect();
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
  expect(kept).toHaveLength(1_000);
});
