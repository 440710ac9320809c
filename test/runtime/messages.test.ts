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
