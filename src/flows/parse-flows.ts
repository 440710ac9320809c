import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { Node } from "../../gen/flowgate/v1/flows_pb.ts";
import type { CredentialSets, FlowNode } from "./configuration.ts";
import { readContainment } from "./containment.ts";
import { findCredentialsViolation } from "./credentials-violation.ts";
import { prependKeyIfFound, type Violation, invalidFlows, quoteInput, prependKey } from "./violation.ts";
import { findJsonViolation, findKeyViolation, findTextViolation } from "./json-violation.ts";

export type ParsedFlows = {
  /** In the order of the request. */
  readonly flows: readonly FlowNode[];
  /** The credentials in the nodes. */
  readonly inline: CredentialSets;
};

/**
 * Validates the nodes of a request and converts them to flat objects. Throws `invalid_flows` with the JSON path of the first
 * violation in document order.
 */
export function parseFlows(nodes: readonly Node[]): ParsedFlows {
  const containment = readContainment(nodes);
  const indices = new Map<string, number>();
  const inline = new Map<string, ReadonlyMap<string, string>>();

  const flows = nodes.map((node, index): FlowNode => {
    const violation = findNodeViolation(node, indices) ?? containment.findViolation(node);
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

function findNodeViolation(node: Node, indices: ReadonlyMap<string, number>): Violation | undefined {
  return (
    findIdViolation(node.id, indices) ??
    prependKeyIfFound("type", node.type === "" ? empty : findTextViolation(node.type)) ??
    prependKeyIfFound("label", node.label === undefined ? undefined : findTextViolation(node.label)) ??
    prependKeyIfFound("credentials", node.credentials && findCredentialsViolation(node.credentials)) ??
    (node.properties && findPropertiesViolation(node.properties, node.label !== undefined))
  );
}

const empty: Violation = { path: [], message: "must not be empty" };

function findIdViolation(id: string, indices: ReadonlyMap<string, number>): Violation | undefined {
  if (id === "") {
    return prependKey("id", empty);
  }
  const first = indices.get(id);
  if (first !== undefined) {
    return { path: ["id"], message: `must be unique, and flows[${first}].id is ${quoteInput(id)} too` };
  }
  return prependKeyIfFound("id", findTextViolation(id));
}

function findPropertiesViolation(properties: JsonObject, labelled: boolean): Violation | undefined {
  for (const key of Object.keys(properties)) {
    // Only RPC clients can send these: in an HTTP body they are the fields of the node.
    if (key === "id" || key === "type" || key === "credentials" || (key === "label" && labelled)) {
      return { path: ["properties", key], message: `must be set as the node's ${key}, not as a property` };
    }
    const value = properties[key];
    const violation =
      findKeyViolation(key) ??
      prependKeyIfFound(key, key === "wires" ? findWiresViolation(value) : findJsonViolation(value, 2));
    if (violation !== undefined) {
      return violation;
    }
  }
  return undefined;
}

function findWiresViolation(wires: JsonValue | undefined): Violation | undefined {
  if (!Array.isArray(wires)) {
    return { path: [], message: "must be an array of arrays of node ids" };
  }
  for (const [output, targets] of wires.entries()) {
    if (!Array.isArray(targets)) {
      return { path: [output], message: "must be an array of node ids" };
    }
    for (const [index, target] of targets.entries()) {
      const violation =
        typeof target === "string" ? findTextViolation(target) : { path: [], message: "must be a node id, a string" };
      if (violation !== undefined) {
        return { path: [output, index], message: violation.message };
      }
    }
  }
  return undefined;
}
