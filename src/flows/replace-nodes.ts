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
  const kept = document.flatMap((node) => {
    if (!replaced.has(node)) {
      return [node];
    }
    const replacement = remaining.get(node.id);
    remaining.delete(node.id);
    return replacement === undefined ? [] : [replacement];
  });
  return [...kept, ...remaining.values()];
}
