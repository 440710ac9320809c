/**
 * The path of the page with a tab, on which a node is selected: the instance of the subflow if it is in one. Global configuration nodes
 * are on no tab: their `flowId` is empty.
 */
export function nodePath({
  flowId,
  nodeId,
  subflowPath,
}: {
  readonly flowId: string;
  readonly nodeId: string;
  readonly subflowPath: readonly string[];
}): string {
  return `${tabPath(flowId)}?node=${encodeURIComponent(subflowPath[0] ?? nodeId)}`;
}

export function tabPath(flowId: string): string {
  return flowId === "" ? "/flows" : `/flows/${encodeURIComponent(flowId)}`;
}
