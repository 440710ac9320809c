import type { FlowNode } from "../configuration.ts";
import { subflowOf } from "../node-role.ts";

/** A node type that is not installed, or the instance of a subflow that does not exist. The runtime then starts nothing. */
export type MissingType = { readonly type: string; readonly nodeIds: readonly string[] };

/** `knownTypes` are the installed types; undefined if they are not known, which finds missing subflows only. */
export function findMissingTypes(
  flows: readonly FlowNode[],
  knownTypes: ReadonlySet<string> | undefined,
): readonly MissingType[] {
  const subflows = new Set(flows.filter(({ type }) => type === "subflow").map(({ id }) => id));
  const isMissing = (node: FlowNode): boolean => {
    if (node.type === "tab" || node.type === "subflow" || node.type === "group") {
      return false;
    }
    const subflow = subflowOf(node);
    return subflow === undefined ? knownTypes?.has(node.type) === false : !subflows.has(subflow);
  };
  const missing = Map.groupBy(flows.filter(isMissing), ({ type }) => type);
  return Array.from(missing, ([type, nodes]) => ({ type, nodeIds: nodes.map(({ id }) => id) }));
}
