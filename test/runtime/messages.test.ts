import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { parseFromChild } from "../../src/runtime/messages.ts";

const span = { traceId: "a".repeat(32), spanId: "b".repeat(16), startMs: 1, endMs: 2, nodeId: "n" };

/** Each limit, at an odd or an even length, cuts one of them within a character. */
const texts = ["😀".repeat(10_000), `x${"😀".repeat(10_000)}`];

test.each(
  texts.flatMap((text) => {
    const node = { nodeId: text, nodeType: text, nodeName: text, flowId: text, flowLabel: text, subflowPath: [text] };
    return [
      { kind: "log", entry: { level: "info", message: text, traceparent: text, ...node } },
      { kind: "deployed", id: 1, failure: text, missingTypes: [text], failedNodes: [text] },
      { kind: "crashed", cause: text, fault: { node, isCertain: true } },
      { kind: "ready", httpPort: 1, nodeTypes: [text] },
      { kind: "nodes", events: [{ kind: "status", ...node, text, fill: text, shape: text }] },
      { kind: "nodes", events: [{ kind: "error", ...node, level: "error", message: text, stack: text, count: 1 }] },
      { kind: "nodes", events: [{ kind: "debug", ...node, topic: text, property: text, format: text, value: text }] },
      { kind: "nodes", events: [{ kind: "counts", ...node }] },
      { kind: "measurements", process: {}, tabs: [{ tab: text, label: text }], nodes: [{ tab: text, node: text }] },
      { kind: "spans", spans: [{ ...span, ...node, http: { method: "GET", route: text, status: 200 } }] },
    ];
  }),
)("texts of the child are well-formed where they are cut: $kind", (message) => {
  const json = JSON.stringify(parseFromChild(message));
  expect(json).toContain("😀");
  expect(json).not.toMatch(/\\ud[89a-f]/);
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
