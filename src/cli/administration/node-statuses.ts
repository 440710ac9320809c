import type { ListNodeStatusesResponse, NodeState } from "@flowgate/client";
import type { Session } from "../client/session.ts";
import { fetchList } from "../output/list.ts";
import type { Cell, Output, Styled } from "../output/output.ts";
import { formatTime, styleNodeStatus } from "../output/values.ts";
import { findTab, readNodes } from "./find-node.ts";

export type NodeFlags = { readonly tab?: string; readonly failing?: boolean };

/** The nodes that have a status, errors, warnings or messages, and their sums by tab. */
export async function readNodeStatuses(
  session: Session,
  { tab, failing = false }: NodeFlags,
): Promise<ListNodeStatusesResponse> {
  const nodes = tab === undefined ? [] : await readNodes(session);
  const filter = { tab: tab === undefined ? "" : (findTab(nodes, tab)?.id ?? tab), failing };
  return fetchList(
    Infinity,
    (page) => session.runtime.listNodeStatuses({ ...filter, ...page }),
    (response) => response.nodes,
  );
}

/** A table of the tabs, and one of their nodes. */
export function describeNodeStatuses({ flows, nodes }: ListNodeStatusesResponse, output: Output): string {
  if (nodes.length === 0) {
    return "No node has such a state.";
  }
  const tabs = flows.map((flow): Cell[] => [
    flow.flowLabel || flow.flowId || "(none)",
    String(flow.nodes),
    count(flow.failingNodes, "red"),
    count(flow.errors, "red"),
    count(flow.warnings, "yellow"),
    String(flow.messages),
    formatTime(flow.lastMessageTime),
  ]);
  const rows = nodes.map((node): Cell[] => [
    node.flowLabel || node.flowId,
    node.nodeName || node.nodeId,
    node.nodeType,
    node.status === undefined ? "" : styleNodeStatus(node.status),
    count(node.errors, "red"),
    count(node.warnings, "yellow"),
    String(node.messages),
    formatTime(node.lastMessageTime),
    describeLastError(node),
  ]);
  return [
    output.table(["TAB", "NODES", "FAILING", "ERRORS", "WARNINGS", "MESSAGES", "LAST MESSAGE"], tabs),
    "",
    output.table(
      ["TAB", "NODE", "TYPE", "STATUS", "ERRORS", "WARNINGS", "MESSAGES", "LAST MESSAGE", "LAST ERROR"],
      rows,
    ),
  ].join("\n");
}

function count(number: number, style: "red" | "yellow"): string | Styled {
  return number === 0 ? "0" : { style, text: String(number) };
}

/** `2026-03-01 09:30:00 TypeError: no name (line 3)` */
function describeLastError({ lastError, lastErrorTime }: NodeState): string {
  if (lastError === undefined) {
    return "";
  }
  const [message = ""] = lastError.message.split("\n");
  const place = lastError.line > 0 ? ` (line ${lastError.line})` : "";
  return `${formatTime(lastErrorTime)} ${message}${place}`;
}
