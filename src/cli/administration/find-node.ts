import type { Node } from "@flowgate/client";
import { CliFailure } from "../failure.ts";
import { printable } from "../printable.ts";

/** Finds a tab by its id or label. Undefined: there is none. Throws a CliFailure if several have the label. */
export function findTab(nodes: readonly Node[], name: string): Node | undefined {
  const tabs = nodes.filter(({ type }) => type === "tab");
  const byId = tabs.find(({ id }) => id === name);
  if (byId !== undefined) {
    return byId;
  }
  const found = tabs.filter((tab) => nameOf(tab) === name);
  if (found.length > 1) {
    throw new CliFailure(
      [
        `${found.length} tabs have the label ${JSON.stringify(name)}. Name one by its id:`,
        ...found.map(({ id, properties }) => `  ${id}${properties?.["disabled"] === true ? "  disabled" : ""}`),
      ].join("\n"),
    );
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

/** What people know a tab by: `"Invoices" (7f3a1c8e)`. */
export function describeTab(tab: Node): string {
  const name = nameOf(tab);
  return printable(name === "" ? tab.id : `${JSON.stringify(name)} (${tab.id})`);
}
