import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Node } from "../../gen/flowgate/v1/flows_pb.ts";
import type { CredentialSets, FlowNode } from "./configuration.ts";
import { readContainment } from "./containment.ts";
import { findCredentialsViolation } from "./credentials-violation.ts";
import { prependKeyIfFound, type Violation, invalidFlows, quote, prependKey } from "./violation.ts";
import { findJsonViolation, findKeyViolation, findTextViolation } from "./json-violation.ts";

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
    const violation = findNodeFault(node, indices) ?? containment.findFault(node);
    if (violation !== undefined) {
      throw invalidFlows(prependKey("flows", prependKey(index, violation)));
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

function findNodeFault(node: Node, indices: ReadonlyMap<string, number>): Violation | undefined {
  return (
    findIdFault(node.id, indices) ??
    prependKeyIfFound("type", node.type === "" ? empty : findTextViolation(node.type)) ??
    prependKeyIfFound("label", node.label === undefined ? undefined : findTextViolation(node.label)) ??
    prependKeyIfFound("credentials", node.credentials && findCredentialsViolation(node.credentials)) ??
    (node.properties && findPropertiesFault(node.properties, node.label !== undefined))
  );
}

const empty: Violation = { path: [], what: "must not be empty" };

function findIdFault(id: string, indices: ReadonlyMap<string, number>): Violation | undefined {
  if (id === "") {
    return prependKey("id", empty);
  }
  const first = indices.get(id);
  if (first !== undefined) {
    return { path: ["id"], what: `must be unique, and flows[${first}].id is ${quote(id)} too` };
  }
  return prependKeyIfFound("id", findTextViolation(id));
}

function findPropertiesFault(properties: JsonObject, labelled: boolean): Violation | undefined {
  for (const key of Object.keys(properties)) {
    // Only RPC clients can send these: over HTTP they are the fields themselves.
    if (key === "id" || key === "type" || key === "credentials" || (key === "label" && labelled)) {
      return { path: ["properties", key], what: `must be given as the node's ${key}, not as a property` };
    }
    const value = properties[key];
    const violation =
      findKeyViolation(key) ??
      prependKeyIfFound(key, key === "wires" ? findWiresFault(value) : findJsonViolation(value, 2));
    if (violation !== undefined) {
      return violation;
    }
  }
  return undefined;
}

function findWiresFault(wires: JsonValue | undefined): Violation | undefined {
  if (!Array.isArray(wires)) {
    return { path: [], what: "must be an array of arrays of node ids" };
  }
  for (const [output, targets] of wires.entries()) {
    if (!Array.isArray(targets)) {
      return { path: [output], what: "must be an array of node ids" };
    }
    for (const [index, target] of targets.entries()) {
      const violation =
        typeof target === "string" ? findTextViolation(target) : { path: [], what: "must be a node id, a string" };
      if (violation !== undefined) {
        return { path: [output, index], what: violation.what };
      }
    }
  }
  return undefined;
}
