import type { ListNodeStatusesResponse, Node, NodeState } from "@flowgate/client";
import type { ClientSession } from "../client/session.ts";
import { fetchList } from "../output/list.ts";
import type { Cell, Output, Styled } from "../output/output.ts";
import { formatRecent, styleNodeStatus } from "../output/values.ts";
import { findTab, textOf } from "./find-node.ts";

export type NodeFlags = { readonly tab?: string; readonly failing?: boolean };

/** The nodes that have a status, errors, warnings or messages, and their sums by tab. A tab is found in the nodes of the active flows. */
export async function readNodeStatuses(
  session: ClientSession,
  nodes: readonly Node[],
  { tab, failing = false }: NodeFlags,
): Promise<ListNodeStatusesResponse> {
  const filter = { tab: tab === undefined ? "" : (findTab(nodes, tab)?.id ?? tab), failing };
  return fetchList(
    Infinity,
    (page) => session.runtime.listNodeStatuses({ ...filter, ...page }),
    (response) => response.nodes,
  );
}

/** A table of the tabs, and one of their nodes. The nodes of the active flows are empty if this user may not read them. */
export function describeNodeStatuses(
  { flows, nodes }: ListNodeStatusesResponse,
  active: readonly Node[],
  output: Output,
): string {
  if (nodes.length === 0) {
    return "No node has such a state.";
  }
  const contents = Map.groupBy(active, (node) => textOf(node, "z"));
  const tabs = flows.map((flow): Cell[] => [
    flow.flowLabel || flow.flowId || "(none)",
    contents.has(flow.flowId) ? String(countNodes(contents, flow.flowId)) : "",
    count(flow.failingNodes, "red"),
    count(flow.errors, "red"),
    count(flow.warnings, "yellow"),
    String(flow.messages),
    formatRecent(flow.lastMessageTime),
  ]);
  const rows = nodes.map((node): Cell[] => [
    node.flowLabel || node.flowId,
    node.nodeName || node.nodeId,
    node.nodeType,
    node.status === undefined ? "" : styleNodeStatus(node.status),
    count(node.errors, "red"),
    count(node.warnings, "yellow"),
    String(node.messages),
    formatRecent(node.lastMessageTime),
  ]);
  const errors = nodes.filter(({ lastError }) => lastError !== undefined);
  const names = ["TAB", "NODE", "TYPE", "STATUS"];
  return [
    output.table(["TAB", "NODES", "FAILING", "ERRORS", "WARNINGS", "MESSAGES", "LAST MESSAGE"], tabs, ["TAB"]),
    "",
    output.table([...names, "ERR", "WARN", "MSGS", "LAST"], rows, names),
    ...(errors.length === 0
      ? []
      : ["", output.table(["NODE", "TIME", "LAST ERROR"], errors.map(describeLastError), ["NODE", "LAST ERROR"])]),
  ].join("\n");
}

/** The nodes on a tab, and those within its instances of subflows. */
function countNodes(
  contents: ReadonlyMap<string, readonly Node[]>,
  flowId: string,
  counted = new Map<string, number>(),
): number {
  const known = counted.get(flowId);
  if (known !== undefined) {
    return known;
  }
  // Ends where a subflow contains itself.
  counted.set(flowId, 0);
  const within = ({ type }: Node): number =>
    type.startsWith("subflow:") ? countNodes(contents, type.slice("subflow:".length), counted) : 0;
  const sum = (contents.get(flowId) ?? []).reduce((total, node) => total + 1 + within(node), 0);
  counted.set(flowId, sum);
  return sum;
}

function count(number: number, style: "red" | "yellow"): string | Styled {
  return number === 0 ? "0" : { style, text: String(number) };
}

function describeLastError({ nodeName, nodeId, lastError, lastErrorTime }: NodeState): Cell[] {
  const [message = ""] = lastError?.message.split("\n") ?? [];
  const line = lastError?.line ?? 0;
  return [nodeName || nodeId, formatRecent(lastErrorTime), `${message}${line > 0 ? ` (line ${line})` : ""}`];
}
