import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { parseFromChild } from "../../src/runtime/messages.ts";

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
    ];
  }),
)("texts of the child are well-formed where they are cut: $kind", (message) => {
  const json = JSON.stringify(parseFromChild(message));
  expect(json).toContain("😀");
  expect(json).not.toMatch(/\\ud[89a-f]/);
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
