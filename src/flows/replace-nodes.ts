import type { FlowNode } from "./configuration.ts";

/**
 * Replaces some nodes of a document by others. A node takes the place of the one with the same id; those with new ids are
 * appended in their order.
 */
export function replaceNodes(
  document: readonly FlowNode[],
  replaced: ReadonlySet<FlowNode>,
  replacements: readonly FlowNode[],
): FlowNode[] {
  const remaining = new Map(replacements.map((node) => [node.id, node]));
  const nodes: FlowNode[] = [];
  for (const node of document) {
    const kept = replaced.has(node) ? remaining.get(node.id) : node;
    if (kept !== undefined) {
      nodes.push(kept);
      remaining.delete(kept.id);
    }
  }
  return [...nodes, ...remaining.values()];
}
