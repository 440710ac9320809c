import { create } from "@bufbuild/protobuf";
import { type Node, NodeSchema, nodeToJson } from "@flowgate/client";
import { type FlowNode, findMissingTabs } from "@flowgate/flows";
import { ifPermitted, type ClientSession } from "../client/session.ts";
import { CliFailure } from "../failure.ts";
import { printable } from "../printable.ts";

/** The tabs in their order, then those that exist only as the `z` of nodes. */
export function readTabs(nodes: readonly Node[]): readonly Node[] {
  const missing = findMissingTabs(nodes.map((node) => nodeToJson(node) as FlowNode));
  return [
    ...nodes.filter(({ type }) => type === "tab"),
    ...Array.from(missing, (id) => create(NodeSchema, { id, type: "tab" })),
  ];
}

/** Finds a tab by its id or label. Undefined: there is none. Throws a CliFailure if several have the label. */
export function findTab(nodes: readonly Node[], name: string): Node | undefined {
  const tabs = readTabs(nodes);
  const named = tabs.filter((tab) => nameOf(tab) === name);
  const isDisabled = ({ properties }: Node): boolean => properties?.["disabled"] === true;
  return (
    tabs.find(({ id }) => id === name) ??
    onlyOne(named, `tabs have the label ${JSON.stringify(name)}`, (tab) => (isDisabled(tab) ? "  disabled" : ""))
  );
}

/** Throws a CliFailure that lists the nodes if there are several. */
function onlyOne(found: readonly Node[], what: string, describe: (node: Node) => string): Node | undefined {
  if (found.length > 1) {
    const lines = found.map((node) => `  ${printable(node.id)}${describe(node)}`);
    throw new CliFailure([`${found.length} ${what}. Name one by its id:`, ...lines].join("\n"));
  }
  return found[0];
}

/** The label of a tab, or the name of a node. */
export function nameOf(node: Node): string {
  return node.label ?? textOf(node, "name");
}

export function textOf({ properties }: Node, key: string): string {
  const value = properties?.[key];
  return typeof value === "string" ? value : "";
}

/** The name of a tab for people: `"Invoices" (7f3a1c8e)`. */
export function describeTab(tab: Node): string {
  const name = nameOf(tab);
  return printable(name === "" ? tab.id : `${JSON.stringify(name)} (${tab.id})`);
}

/** The nodes of the active flows; none if this user may not read them. */
export async function readNodes(session: ClientSession): Promise<readonly Node[]> {
  return (await ifPermitted(session, "flows.read", () => session.flows.getFlows({})))?.flows ?? [];
}

/**
 * Finds a node by its id or name. Of several with this name, one of the preferred type is meant. Undefined: there is none. Throws a
 * CliFailure that lists the nodes with this name if there are still several.
 */
export function findNode(nodes: readonly Node[], name: string, preferredType?: string): Node | undefined {
  const named = nodes.filter((node) => node.type !== "tab" && nameOf(node) === name);
  const preferred = named.filter(({ type }) => type === preferredType);
  const found = preferred.length > 0 ? preferred : named;
  return (
    nodes.find(({ id }) => id === name) ??
    onlyOne(found, `nodes have the name ${JSON.stringify(name)}`, (node) => `  ${describeNode(nodes, node)}`)
  );
}

/** `start (inject) · Invoices` */
export function describeNode(nodes: readonly Node[], node: Node): string {
  const container = textOf(node, "z");
  const tab = nodes.find(({ id }) => id === container);
  const name = nameOf(node);
  const parts = [
    name === "" ? `${node.type} ${node.id}` : `${name} (${node.type})`,
    (tab === undefined ? "" : nameOf(tab)) || container,
  ];
  return printable(parts.filter((part) => part !== "").join(" · "));
}
