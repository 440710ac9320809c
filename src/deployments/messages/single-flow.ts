import { type JsonObject, type MessageInitShape, create } from "@bufbuild/protobuf";
import type { JsonPath } from "@flowgate/gateway/json-path";
import {
  type Flow,
  FlowSchema,
  type Node,
  NodeSchema,
  type Subflow,
  SubflowSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import {
  type FlowNode,
  findMissingTabs,
  roleOf,
  type LocatedNode,
  type ParsedFlows,
  globalFlowId,
  parseNodes,
  invalidFlows,
  quoteInput,
} from "@flowgate/flows";
import { toNodes } from "./flow-nodes.ts";

/** The nodes of a tab or subflow, or of the global flow. All in the order of the document. */
type Content = {
  /** Nodes and groups with a place on the tab or in the subflow. */
  readonly nodes: readonly FlowNode[];
  /** Configuration nodes. */
  readonly configs: readonly FlowNode[];
};

type SubflowParts = Content & { readonly definition: FlowNode };

/** The nodes of a document that are one flow. The global one has no tab and no nodes, any other one no subflows. */
export type FlowParts = Content & { readonly tab: FlowNode | undefined; readonly subflows: readonly SubflowParts[] };

/** Finds the flow with this id; undefined if there is no such tab, see `findTab`. */
export function findFlow(document: readonly FlowNode[], id: string): FlowParts | undefined {
  if (id === globalFlowId) {
    return readGlobalFlow(document);
  }
  const tab = findTab(document, id);
  return tab && { tab, ...readContent(document.filter((node) => node["z"] === id)), subflows: [] };
}

/** Finds the tab with this id. The runtime also creates a tab that exists only as the `z` of nodes: one without properties. */
export function findTab(document: readonly FlowNode[], id: string): FlowNode | undefined {
  const node = document.find((each) => each.id === id);
  if (node !== undefined) {
    return node.type === "tab" ? node : undefined;
  }
  return findMissingTabs(document).has(id) ? { id, type: "tab" } : undefined;
}

/** Throws `not_found` if there is no such flow. */
export function requireFlow(document: readonly FlowNode[], id: string): FlowParts {
  return findFlow(document, id) ?? throwNotFound(id);
}

/** The same for its tab. */
export function requireTab(document: readonly FlowNode[], id: string): FlowNode {
  return findTab(document, id) ?? throwNotFound(id);
}

function throwNotFound(id: string): never {
  throw new FlowgateError("not_found", `there is no flow ${quoteInput(id)}: no tab has this id`);
}

function readGlobalFlow(document: readonly FlowNode[]): FlowParts {
  const content = Map.groupBy(document, (node) => node["z"]);
  const subflows = document
    .filter(({ type }) => type === "subflow")
    .map((definition) => ({ definition, ...readContent(content.get(definition.id) ?? []) }));
  return { tab: undefined, nodes: [], configs: document.filter(createIsGlobalConfig(document)), subflows };
}

/** Recognizes the configuration nodes that are on none of the document's tabs and in none of its subflows. */
function createIsGlobalConfig(document: readonly FlowNode[]): (node: FlowNode) => boolean {
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

function isContainer({ type }: { readonly type: string }): boolean {
  return type === "tab" || type === "subflow";
}

function readContent(contained: readonly FlowNode[]): Content {
  const members = contained.filter((node) => !isContainer(node));
  return { nodes: members.filter((node) => !isConfig(node)), configs: members.filter(isConfig) };
}

function isConfig(node: FlowNode): boolean {
  return roleOf(node) === "config";
}

export type FlowContext = {
  /** The id of the tab, regardless of the message's id; or the global flow's. */
  readonly id: string;
  /** The flow that is replaced, whose hidden properties are kept. Undefined: it is new. */
  readonly replaced: FlowParts | undefined;
  readonly others: readonly FlowNode[];
};

/**
 * Validates a flow of a request and converts it to flat objects: first the tab, then its nodes, whose `z` is set to its id.
 * Throws `invalid_flows` with the JSON path of the first violation.
 */
export function parseFlow(flow: Flow, { id, replaced, others }: FlowContext): ParsedFlows {
  if (id !== globalFlowId) {
    return parseNodes(locateTab(flow, id, replaced?.tab), others);
  }
  assertGlobal(flow);
  const parsed = parseNodes(locateGlobal(flow, replaced), others);
  const isGlobalConfig = createIsGlobalConfig([...others, ...parsed.flows]);
  const index = parsed.flows.slice(0, flow.configs.length).findIndex((node) => !isGlobalConfig(node));
  if (index !== -1) {
    throw invalidFlows({
      path: ["flow", "configs", index],
      message: "must be a configuration node of all flows: without x and y, and without the z of a tab or subflow",
    });
  }
  return parsed;
}

function locateTab(flow: Flow, id: string, replaced: FlowNode | undefined): LocatedNode[] {
  const { label, disabled, info, credentials, properties = {} } = flow;
  if (flow.subflows.length > 0) {
    throw invalidFlows({ path: ["flow", "subflows"], message: `must be absent: only the flow "global" has subflows` });
  }
  if (Object.hasOwn(properties, "type")) {
    throw invalidFlows({ path: ["flow", "type"], message: "must be absent: a flow is always a tab" });
  }
  const fields = { ...(disabled !== undefined && { disabled }), ...(info !== undefined && { info }) };
  assertNoFields(properties, [...hiddenTabProperties, ...Object.keys(fields)], ["flow"]);
  const tab = create(NodeSchema, {
    id,
    type: "tab",
    ...(label !== undefined && { label }),
    ...(credentials !== undefined && { credentials }),
    properties: { ...fields, ...properties, ...hiddenOf(replaced, hiddenTabProperties) },
  });
  return [{ node: tab, path: ["flow"] }, ...locateContent(flow, id, ["flow"])];
}

function locateGlobal(flow: Flow, replaced: FlowParts | undefined): LocatedNode[] {
  const definitions = new Map(replaced?.subflows.map(({ definition }) => [definition.id, definition]));
  return [
    ...flow.configs.map((node, index) => ({ node, path: ["flow", "configs", index] })),
    ...flow.subflows.flatMap((subflow, index) =>
      locateSubflow(subflow, definitions.get(subflow.id), ["flow", "subflows", index]),
    ),
  ];
}

function locateSubflow(subflow: Subflow, replaced: FlowNode | undefined, path: JsonPath): LocatedNode[] {
  const { id, type, credentials, properties = {} } = subflow;
  if (type !== "" && type !== "subflow") {
    throw invalidFlows({ path: [...path, "type"], message: 'must be "subflow", or absent' });
  }
  assertNoFields(properties, hiddenSubflowProperties, path);
  const definition = create(NodeSchema, {
    id,
    type: "subflow",
    ...(credentials !== undefined && { credentials }),
    properties: { ...properties, ...hiddenOf(replaced, hiddenSubflowProperties) },
  });
  return [{ node: definition, path }, ...locateContent(subflow, id, path)];
}

/** The nodes on a tab or in a subflow with this id. */
function locateContent(content: Pick<Flow, "nodes" | "configs">, z: string, path: JsonPath): LocatedNode[] {
  const locate = (nodes: readonly Node[], name: string): LocatedNode[] =>
    nodes.map((node, index) => {
      if (isContainer(node)) {
        throw invalidFlows({
          path: [...path, name, index, "type"],
          message: `must not be ${JSON.stringify(node.type)}: flows contain no tabs, and only the flow "global" has subflows`,
        });
      }
      const isThere = node.properties?.["z"] === z;
      return {
        node: isThere ? node : { ...node, properties: { ...node.properties, z } },
        path: [...path, name, index],
      };
    });
  return [...locate(content.nodes, "nodes"), ...locate(content.configs, "configs")];
}

function assertGlobal({ label, disabled, info, credentials, nodes, properties = {} }: Flow): void {
  const fields = { ...properties, label, disabled, info, credentials, nodes: nodes.length === 0 ? undefined : nodes };
  const present = Object.entries(fields).find(([, value]) => value !== undefined);
  if (present !== undefined) {
    throw invalidFlows({
      path: ["flow", present[0]],
      message: 'must be absent: the flow "global" has only configs and subflows',
    });
  }
}

/** Only RPC clients can send such properties: in an HTTP body they are the fields of the flow. */
function assertNoFields(properties: JsonObject, names: readonly string[], path: JsonPath): void {
  const name = names.find((each) => Object.hasOwn(properties, each));
  if (name !== undefined) {
    throw invalidFlows({
      path: [...path, "properties", name],
      message: `must be set as the field ${name}, not as a property`,
    });
  }
}

function hiddenOf(node: FlowNode | undefined, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.flatMap((name) => (node?.[name] === undefined ? [] : [[name, node[name]]])));
}

/** The properties of a tab or subflow that its message can't contain, because it has fields with these names. */
const hiddenTabProperties: readonly string[] = ["nodes", "configs", "subflows", "rev"];
const hiddenSubflowProperties: readonly string[] = ["nodes", "configs"];

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

/**
 * Replaces some nodes of a document by others. A node takes the place of the one with the same id; nodes with new ids
 * are appended in their order.
 */
export function replaceNodes(
  document: readonly FlowNode[],
  replaced: ReadonlySet<FlowNode>,
  replacements: readonly FlowNode[],
): FlowNode[] {
  const remaining = new Map(replacements.map((node) => [node.id, node]));
  const nodes: FlowNode[] = [];
  for (const node of document) {
    const kept = replaced.has(node) ? remaining.get(node.id) : node;
    if (kept !== undefined) {
      nodes.push(kept);
      remaining.delete(kept.id);
    }
  }
  return [...nodes, ...remaining.values()];
}
