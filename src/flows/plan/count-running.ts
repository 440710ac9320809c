import type { FlowNode } from "../configuration.ts";
import { type Content, instantiatedBy, parseForRuntime, type RuntimeFlows } from "./runtime-flows.ts";

/** Returns how many nodes a full start would run at most. Nested subflows can multiply a few nodes to any number. */
export function countRunning(flows: readonly FlowNode[]): number {
  const parsed = parseForRuntime(flows);
  const counts = new Map<Content, number>();
  return [parsed.global, ...parsed.tabs.values()].reduce(
    (sum, content) => sum + countContent(content, parsed, counts),
    0,
  );
}

function countContent(content: Content, parsed: RuntimeFlows, counts: Map<Content, number>): number {
  const known = counts.get(content);
  if (known !== undefined) {
    return known;
  }
  counts.set(content, 0);
  let count = content.configs.size + content.nodes.size;
  for (const node of content.nodes.values()) {
    const subflow = parsed.subflows.get(instantiatedBy(node) ?? "");
    count += subflow === undefined ? 0 : countContent(subflow, parsed, counts);
  }
  counts.set(content, count);
  return count;
}
