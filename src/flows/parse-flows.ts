import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Node } from "../../gen/flowgate/v1/flows_pb.ts";
import type { CredentialSets, FlowNode } from "./configuration.ts";
import { readContainment } from "./containment.ts";
import { findCredentialsFault } from "./credentials-fault.ts";
import { at, type Fault, invalidFlows, quote, under } from "./fault.ts";
import { findJsonFault, findKeyFault, findTextFault } from "./json-fault.ts";

export type ParsedFlows = {
  /** In the order of the request. */
  readonly flows: readonly FlowNode[];
  /** The credentials that came inside nodes. */
  readonly inline: CredentialSets;
};

/**
 * Checks the nodes of a request and makes them flat. Throws `invalid_flows` with the JSON path of the first fault
 * in document order.
 */
export function parseFlows(nodes: readonly Node[]): ParsedFlows {
  const containment = readContainment(nodes);
  const indices = new Map<string, number>();
  const inline = new Map<string, ReadonlyMap<string, string>>();

  const flows = nodes.map((node, index): FlowNode => {
    const fault = findNodeFault(node, indices) ?? containment.findFault(node);
    if (fault !== undefined) {
      throw invalidFlows(under("flows", under(index, fault)));
    }
    indices.set(node.id, index);
    if (node.credentials !== undefined) {
      inline.set(node.id, new Map(Object.entries(node.credentials.values)));
    }
    return flatten(node);
  });
  return { flows, inline };
}

function flatten({ id, type, label, properties }: Node): FlowNode {
  return label === undefined ? { id, type, ...properties } : { id, type, label, ...properties };
}

function findNodeFault(node: Node, indices: ReadonlyMap<string, number>): Fault | undefined {
  return (
    findIdFault(node.id, indices) ??
    at("type", node.type === "" ? empty : findTextFault(node.type)) ??
    at("label", node.label === undefined ? undefined : findTextFault(node.label)) ??
    at("credentials", node.credentials && findCredentialsFault(node.credentials)) ??
    (node.properties && findPropertiesFault(node.properties, node.label !== undefined))
  );
}

const empty: Fault = { path: [], what: "must not be empty" };

function findIdFault(id: string, indices: ReadonlyMap<string, number>): Fault | undefined {
  if (id === "") {
    return under("id", empty);
  }
  const first = indices.get(id);
  if (first !== undefined) {
    return { path: ["id"], what: `must be unique, and flows[${first}].id is ${quote(id)} too` };
  }
  return at("id", findTextFault(id));
}

function findPropertiesFault(properties: JsonObject, labelled: boolean): Fault | undefined {
  for (const key of Object.keys(properties)) {
    // Only RPC clients can send these: over HTTP they are the fields themselves.
    if (key === "id" || key === "type" || key === "credentials" || (key === "label" && labelled)) {
      return { path: ["properties", key], what: `must be given as the node's ${key}, not as a property` };
    }
    const value = properties[key];
    const fault = findKeyFault(key) ?? at(key, key === "wires" ? findWiresFault(value) : findJsonFault(value, 2));
    if (fault !== undefined) {
      return fault;
    }
  }
  return undefined;
}

function findWiresFault(wires: JsonValue | undefined): Fault | undefined {
  if (!Array.isArray(wires)) {
    return { path: [], what: "must be an array of arrays of node ids" };
  }
  for (const [output, targets] of wires.entries()) {
    if (!Array.isArray(targets)) {
      return { path: [output], what: "must be an array of node ids" };
    }
    for (const [index, target] of targets.entries()) {
      const fault =
        typeof target === "string" ? findTextFault(target) : { path: [], what: "must be a node id, a string" };
      if (fault !== undefined) {
        return { path: [output, index], what: fault.what };
      }
    }
  }
  return undefined;
}
