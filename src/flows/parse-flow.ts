import { create, type JsonObject } from "@bufbuild/protobuf";
import type { JsonPath } from "@flowgate/gateway/json-path";
import { type Flow, type Node, NodeSchema, type Subflow } from "../../gen/flowgate/v1/flows_pb.ts";
import type { FlowNode } from "./configuration.ts";
import { createIsGlobalConfig, type FlowParts, globalFlowId, isContainer } from "./flow-parts.ts";
import { type LocatedNode, type ParsedFlows, parseNodes } from "./parse-flows.ts";
import { hiddenSubflowProperties, hiddenTabProperties } from "./to-flow.ts";
import { invalidFlows } from "./violation.ts";

/** A flow among the other nodes of a document. */
export type FlowContext = {
  /** The id of the tab, whatever that of the message is; or that of the global flow. */
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
