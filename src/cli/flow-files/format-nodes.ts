import type { JsonValue } from "@bufbuild/protobuf";
import { Document, isMap, isSeq } from "yaml";
import type { FlowNode } from "../../flows/configuration.ts";
import { printableData } from "../printable.ts";
import { formatYaml } from "../yaml/format-yaml.ts";

export type FileFormat = "yaml" | "json";

/** Formats nodes as an array, the same text for equal nodes, without credentials. */
export function formatNodes(nodes: readonly FlowNode[], format: FileFormat): string {
  const sorted = nodes.map(sortProperties);
  return format === "json" ? printableData(`${JSON.stringify(sorted, null, 2)}\n`) : toYaml(sorted);
}

const first = ["id", "type", "z", "g", "d", "name", "label", "disabled"];
const last = ["x", "y", "w", "h", "wires"];

/**
 * Sorts the properties of a node, because their order depends on the client that has deployed it. The members of their values
 * stay as they are.
 */
function sortProperties(node: FlowNode): FlowNode {
  const { credentials: _, ...properties } = node;
  const names = Object.keys(properties);
  const isFixed = new Set([...first, ...last]);
  const sorted = [
    ...first.filter((name) => Object.hasOwn(properties, name)),
    ...names.filter((name) => !isFixed.has(name)).toSorted(),
    ...last.filter((name) => Object.hasOwn(properties, name)),
  ];
  return Object.fromEntries(sorted.map((name) => [name, properties[name] as JsonValue])) as FlowNode;
}

function toYaml(nodes: readonly FlowNode[]): string {
  const document = new Document(nodes, { aliasDuplicateObjects: false });
  const items = isSeq(document.contents) ? document.contents.items.filter((item) => isMap(item)) : [];
  for (const [index, item] of items.entries()) {
    item.spaceBefore = index > 0;
    const wires = item.get("wires");
    if (isSeq(wires)) {
      wires.flow = true;
    }
  }
  return formatYaml(document);
}
