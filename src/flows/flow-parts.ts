import type { FlowNode } from "./configuration.ts";
import { roleOf } from "./node-role.ts";

/** The id of the flow that has no tab: the configuration nodes and subflows that all tabs share. */
export const globalFlowId = "global";

/** The nodes of a tab or subflow, or of the global flow. All in the order of the document. */
type Content = {
  /** Nodes and groups with a place on the tab or in the subflow. */
  readonly nodes: readonly FlowNode[];
  /** Configuration nodes. */
  readonly configs: readonly FlowNode[];
};

export type SubflowParts = Content & { readonly definition: FlowNode };

/** The nodes of a document that are one flow. The global one has no tab and no nodes, any other one no subflows. */
export type FlowParts = Content & {
  readonly tab: FlowNode | undefined;
  readonly subflows: readonly SubflowParts[];
};

/** Finds the flow with this id; undefined if there is no such tab. */
export function findFlow(document: readonly FlowNode[], id: string): FlowParts | undefined {
  if (id === globalFlowId) {
    return readGlobalFlow(document);
  }
  const tab = findTab(document, id);
  return tab && { tab, ...readContent(document.filter((node) => node["z"] === id)), subflows: [] };
}

export function findTab(document: readonly FlowNode[], id: string): FlowNode | undefined {
  return document.find((node) => node.id === id && node.type === "tab");
}

function readGlobalFlow(document: readonly FlowNode[]): FlowParts {
  const content = Map.groupBy(document, (node) => node["z"]);
  const subflows = document
    .filter(({ type }) => type === "subflow")
    .map((definition) => ({ definition, ...readContent(content.get(definition.id) ?? []) }));
  return { tab: undefined, nodes: [], configs: document.filter(createIsGlobalConfig(document)), subflows };
}

/** Recognizes the configuration nodes that are on none of the document's tabs and in none of its subflows. */
export function createIsGlobalConfig(document: readonly FlowNode[]): (node: FlowNode) => boolean {
  const containers = new Set(document.filter(isContainer).map(({ id }) => id));
  return (node) => isConfig(node) && !(typeof node["z"] === "string" && containers.has(node["z"]));
}

/** All nodes of the flow, and the tab itself. */
export function nodesOf({ tab, nodes, configs, subflows }: FlowParts): FlowNode[] {
  return [
    ...(tab === undefined ? [] : [tab]),
    ...nodes,
    ...configs,
    ...subflows.flatMap((subflow) => [subflow.definition, ...subflow.nodes, ...subflow.configs]),
  ];
}

export function isContainer({ type }: { readonly type: string }): boolean {
  return type === "tab" || type === "subflow";
}

function readContent(contained: readonly FlowNode[]): Content {
  const members = contained.filter((node) => !isContainer(node));
  return { nodes: members.filter((node) => !isConfig(node)), configs: members.filter(isConfig) };
}

function isConfig(node: FlowNode): boolean {
  return roleOf(node) === "config";
}
