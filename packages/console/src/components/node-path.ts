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

/**
 * Slashes are escaped by a tilde, not by a percent sign: proxies can decode a path, and the service would find more folders in it than the
 * browser. So are the names that browsers take as folders.
 */
export function tabPath(flowId: string): string {
  const escaped = flowId.replaceAll(flowId === "." || flowId === ".." ? "." : /[~/]/g, toEscape);
  return escaped === "" ? "/flows" : `/flows/${encodeURIComponent(escaped)}`;
}

export function parseTabPath(text: string): string | undefined {
  try {
    return decodeURIComponent(text).replaceAll(/~(?:2E|2F|7E)/g, (escape) =>
      String.fromCharCode(Number.parseInt(escape.slice(1), 16)),
    );
  } catch {
    return undefined;
  }
}

function toEscape(character: string): string {
  return `~${character.charCodeAt(0).toString(16).toUpperCase()}`;
}
