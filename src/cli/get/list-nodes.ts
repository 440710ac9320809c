import type { Node } from "@flowgate/client";
import { printable } from "../printable.ts";

/** The tabs and subflows with the numbers of their nodes, and last the configuration nodes that all of them share. */
export function listTabs(nodes: readonly Node[]): string[][] {
  const counts = Map.groupBy(nodes, (node) => textOf(node, "z"));
  const containers = nodes.filter(({ type }) => type === "tab" || type === "subflow");
  const shared = nodes.length - containers.length - containers.reduce((sum, { id }) => sum + countOf(id), 0);
  return [
    ...containers.map((node) => [
      printable(node.id),
      node.type,
      printable(nameOf(node)),
      String(countOf(node.id)),
      node.properties?.["disabled"] === true ? "disabled" : "",
    ]),
    ...(shared === 0 ? [] : [["global", "shared", "", String(shared), ""]]),
  ];

  function countOf(id: string): number {
    return counts.get(id)?.length ?? 0;
  }
}

export function listNodes(nodes: readonly Node[]): string[][] {
  return nodes.map((node) => [printable(node.id), printable(node.type), printable(nameOf(node))]);
}

function nameOf(node: Node): string {
  return node.label ?? textOf(node, "name");
}

function textOf({ properties }: Node, key: string): string {
  const value = properties?.[key];
  return typeof value === "string" ? value : "";
}
