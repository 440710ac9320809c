import { FlowSchema, GetFlowsResponseSchema, type Node } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { printable } from "../printable.ts";
import { nameOf, readTabs, textOf } from "./find-node.ts";
import { findRevision } from "./history.ts";

export async function getFlows({ session, output }: ClientContext, { rev }: { readonly rev?: string }): Promise<void> {
  const named = rev === undefined ? undefined : await findRevision(session, rev);
  const response = await session.flows.getFlows({ rev: named?.rev ?? "" });
  output.message(GetFlowsResponseSchema, response, () => {
    const tabs = listTabs(response.flows);
    return tabs.length === 0
      ? `Revision ${printable(response.rev)} has no flows.`
      : output.table(["ID", "KIND", "NAME", "NODES", "STATE"], tabs);
  });
}

export async function getFlow({ session, output }: ClientContext, id: string): Promise<void> {
  const flow = await session.flows.getFlow({ id });
  output.message(FlowSchema, flow, () => {
    const { label = "", disabled = false, info = "", nodes, configs, subflows } = flow;
    const rows = [...nodes, ...configs].map((node) => [node.id, node.type, nameOf(node)]);
    return [
      output.fields([
        ["Id", flow.id],
        ["Name", label],
        ["State", disabled ? "disabled" : "enabled"],
        ["Description", info],
        ["Subflows", subflows.length === 0 ? "" : String(subflows.length)],
        ["Revision", flow.rev],
      ]),
      ...(rows.length === 0 ? [] : ["", output.table(["ID", "TYPE", "NAME"], rows)]),
    ].join("\n");
  });
}

/** The tabs and subflows with the numbers of their nodes, and last the configuration nodes that all of them share. */
function listTabs(nodes: readonly Node[]): string[][] {
  const counts = Map.groupBy(nodes, (node) => textOf(node, "z"));
  const stored = nodes.filter(({ type }) => type === "tab" || type === "subflow");
  const containers = [...new Set([...stored, ...readTabs(nodes)])];
  const shared = nodes.length - stored.length - containers.reduce((sum, { id }) => sum + countOf(id), 0);
  return [
    ...containers.map((node) => [
      node.id,
      node.type,
      nameOf(node),
      String(countOf(node.id)),
      node.properties?.["disabled"] === true ? "disabled" : "",
    ]),
    ...(shared === 0 ? [] : [["global", "shared", "", String(shared), ""]]),
  ];

  function countOf(id: string): number {
    return counts.get(id)?.length ?? 0;
  }
}
