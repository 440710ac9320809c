import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { type Flow, FlowSchema, type Subflow, SubflowSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import type { FlowNode } from "./configuration.ts";
import type { FlowParts, SubflowParts } from "./flow-parts.ts";
import { toNodes } from "./to-nodes.ts";

/** The properties of a tab or subflow that its message can't contain, because it has fields with these names. */
export const hiddenTabProperties: readonly string[] = ["nodes", "configs", "subflows", "rev"];
export const hiddenSubflowProperties: readonly string[] = ["nodes", "configs"];

/** The properties of a tab that are fields of its message if they have this type. */
const tabFields: ReadonlyMap<string, string> = new Map([
  ["label", "string"],
  ["disabled", "boolean"],
  ["info", "string"],
]);

/** The inverse of `parseFlow`, without hidden properties. */
export function toFlow(id: string, { tab, nodes, configs, subflows }: FlowParts, rev: string): Flow {
  return create(FlowSchema, {
    ...(tab && toTabFields(tab)),
    id,
    nodes: toNodes(nodes),
    configs: toNodes(configs),
    subflows: subflows.map(toSubflow),
    rev,
  });
}

function toTabFields(tab: FlowNode): MessageInitShape<typeof FlowSchema> {
  const entries = visibleEntries(tab, hiddenTabProperties);
  const isField = ([name, value]: Entry): boolean => tabFields.get(name) === typeof value;
  return {
    ...Object.fromEntries(entries.filter(isField)),
    properties: Object.fromEntries(entries.filter((entry) => !isField(entry))),
  };
}

function toSubflow({ definition, nodes, configs }: SubflowParts): Subflow {
  const properties: JsonObject = Object.fromEntries(visibleEntries(definition, hiddenSubflowProperties));
  const { id, type } = definition;
  return create(SubflowSchema, { id, type, nodes: toNodes(nodes), configs: toNodes(configs), properties });
}

type Entry = [name: string, value: JsonObject[string]];

function visibleEntries(node: FlowNode, hidden: readonly string[]): Entry[] {
  return Object.entries(node).filter(([name]) => name !== "id" && name !== "type" && !hidden.includes(name));
}
