import { formatPath } from "@flowgate/gateway/json-path";
import type { FlowNode } from "./configuration.ts";
import { type Contained, affectsContainment, readContainment } from "./containment.ts";
import {
  type SubmittedCredentials,
  type SubmittedSet,
  findCredentialsViolation,
  parseCredentialSet,
} from "./credentials.ts";
import { type JsonObject, type JsonPath, type JsonValue, isJsonObject } from "./json.ts";
import { toKey } from "./plan/runtime-flows.ts";
import {
  type Violation,
  findJsonViolation,
  findKeyViolation,
  findTextViolation,
  invalidFlows,
  prependKey,
  prependKeyIfFound,
  quoteInput,
} from "./violation.ts";

/** A node that is not validated yet: its properties apart from those that each node has, its credentials in it. */
export type SubmittedNode = {
  readonly id: string;
  readonly type: string;
  readonly label?: string | undefined;
  readonly credentials?: SubmittedSet | undefined;
  readonly properties?: JsonObject | undefined;
};

/** A node of a request, and its JSON path there. */
export type LocatedNode = { readonly node: SubmittedNode; readonly path: JsonPath };

export type ParsedFlows = {
  /** In the order of the request. */
  readonly flows: readonly FlowNode[];
  /** The credentials in the nodes. */
  readonly inline: SubmittedCredentials["inline"];
};

/** Validates the nodes of a whole configuration, as `parseNodes` does. */
export function parseFlows(nodes: readonly SubmittedNode[]): ParsedFlows {
  return parseNodes(locate(nodes));
}

/** Finds the first violation of a whole configuration in document order. */
export function findViolation(nodes: readonly SubmittedNode[]): Violation | undefined {
  const [violation] = findViolations(locate(nodes));
  return violation;
}

function locate(nodes: readonly SubmittedNode[]): readonly LocatedNode[] {
  return nodes.map((node, index) => ({ node, path: ["flows", index] }));
}

/**
 * Validates the nodes of a request and converts them to flat objects. `others` are the nodes that the configuration has
 * besides them. Throws `invalid_flows` with the JSON path of the first violation in document order.
 */
export function parseNodes(located: readonly LocatedNode[], others: readonly FlowNode[] = []): ParsedFlows {
  for (const violation of findViolations(located, others)) {
    throw invalidFlows(violation);
  }
  const inline = new Map<string, ReadonlyMap<string, string>>();
  const flows = located.map(({ node }): FlowNode => {
    if (node.credentials !== undefined) {
      inline.set(node.id, parseCredentialSet(node.credentials));
    }
    return flatten(node);
  });
  return { flows, inline };
}

/** Finds the first violation of each node in document order. */
export function* findViolations(
  located: readonly LocatedNode[],
  others: readonly FlowNode[] = [],
): Generator<Violation> {
  const containers = others.filter(affectsContainment);
  const containment = readContainment([...containers, ...located.map(({ node }) => toContained(node))]);
  const paths = findTakenIds(located, others);

  for (const { node, path } of located) {
    const violation = findNodeViolation(node, paths) ?? containment.findViolation(toContained(node));
    if (violation !== undefined) {
      yield { path: [...path, ...violation.path], message: violation.message };
    }
    if (!paths.has(node.id)) {
      paths.set(node.id, path);
    }
  }
  // A new subflow contains the nodes that refer to its id already.
  for (const other of containers) {
    const violation = containment.findViolation(other);
    if (violation !== undefined) {
      yield { path: ["flow"], message: `the unchanged node ${quoteInput(other.id)}: ${violation.message}` };
    }
  }
}

/** The paths of the ids so far; undefined for the id of a node that is not in the request. */
type PathsById = Map<string, JsonPath | undefined>;

/** The ids in the request that others have. */
function findTakenIds(located: readonly LocatedNode[], others: readonly FlowNode[]): PathsById {
  const ids = new Set(others.length === 0 ? [] : located.map(({ node }) => node.id));
  return new Map(others.filter(({ id }) => ids.has(id)).map(({ id }) => [id, undefined]));
}

function toContained({ id, type, properties }: SubmittedNode): Contained {
  return { id, type, z: properties?.["z"], g: properties?.["g"] };
}

function flatten({ id, type, label, properties }: SubmittedNode): FlowNode {
  return label === undefined ? { id, type, ...properties } : { id, type, label, ...properties };
}

function findNodeViolation(node: SubmittedNode, paths: PathsById): Violation | undefined {
  return (
    findIdViolation(node.id, paths) ??
    findReservedName(node) ??
    prependKeyIfFound("type", node.type === "" ? empty : findTextViolation(node.type)) ??
    prependKeyIfFound("label", node.label === undefined ? undefined : findTextViolation(node.label)) ??
    prependKeyIfFound("credentials", node.credentials && findCredentialsViolation(node.credentials, node.type)) ??
    (node.properties && findPropertiesViolation(node.properties, node.label !== undefined)) ??
    findUnreadableProperty(node)
  );
}

const empty: Violation = { path: [], message: "must not be empty" };

function findIdViolation(id: string, paths: PathsById): Violation | undefined {
  if (id === "") {
    return prependKey("id", empty);
  }
  if (paths.has(id)) {
    const first = paths.get(id);
    const owner = first === undefined ? "that of a node of another flow" : `${formatPath(first)}.id`;
    return { path: ["id"], message: `must be unique, and ${owner} is ${quoteInput(id)} too` };
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

/** The id of the flow that has no tab: the configuration nodes and subflows that all tabs share. */
export const globalFlowId = "global";

/**
 * Finds the first name in a node that the flow runtime can't use: it keeps nodes and types in plain objects, which have members
 * such as `constructor`, and would fail, crash, ignore the node or change all objects of its process.
 */
function findReservedName({ id, type, properties = {} }: SubmittedNode): Violation | undefined {
  const { z, links, env } = properties;
  if (isMember(id)) {
    return reserved(["id"], id);
  }
  if (type === "tab" && id === globalFlowId) {
    return reserved(["id"], id);
  }
  if (isMember(type) || isMember(type.replace(/^subflow:/, ""))) {
    return reserved(["type"], type);
  }
  if (typeof z === "string" && isMember(z)) {
    return reserved(["z"], z);
  }
  if (type === "link in" && Array.isArray(links)) {
    const index = links.findIndex((link) => typeof link === "string" && isMember(link));
    if (index !== -1) {
      return reserved(["links", index], links[index] as string);
    }
  }
  return Array.isArray(env) ? findReservedVariable(env) : undefined;
}

function findReservedVariable(env: readonly unknown[]): Violation | undefined {
  for (const [index, variable] of env.entries()) {
    const { name } = Object(variable) as { readonly name?: unknown };
    if (name === "__proto__" || name === "hasOwnProperty") {
      return reserved(["env", index, "name"], name);
    }
  }
  return undefined;
}

function isMember(name: string): boolean {
  return name in Object.prototype;
}

function reserved(path: Violation["path"], name: string): Violation {
  return { path, message: `must not be ${quoteInput(name)}, which the flow runtime can't use as a name` };
}

/**
 * Finds the first property of a shape with which the flow runtime starts nothing at all, although it reads the property when it starts any flows, of
 * disabled tabs too.
 */
function findUnreadableProperty({ type, properties = {} }: SubmittedNode): Violation | undefined {
  const { z, links, libs, nodes, scope, d } = properties;
  // It converts a list to text, and so to a name.
  const lists = type === "link in" && Array.isArray(links) ? [...links.entries()] : [];
  const names = [[["z"], z] as const, ...lists.map(([index, link]) => [["links", index], link] as const)];
  for (const [path, name] of names) {
    if (Array.isArray(name) && isMember(toKey(name))) {
      return reserved(path, toKey(name));
    }
  }
  if ((type === "link in" || type === "link out") && isUnlisted(links)) {
    return { path: ["links"], message: "must be an array of node ids" };
  }
  if (type === "group" && isUnlisted(nodes)) {
    return { path: ["nodes"], message: "must be an array of node ids" };
  }
  // It would count to the length that the object states.
  if (type === "complete" && isJsonObject(scope)) {
    return { path: ["scope"], message: "must be an array of node ids" };
  }
  // It does not look for the modules of disabled nodes.
  if (type === "function" && Array.isArray(libs) && !d) {
    const index = libs.indexOf(null);
    if (index !== -1) {
      return { path: ["libs", index], message: "must be an object with module and var" };
    }
  }
  return type === "subflow" ? findPortViolation(properties) : undefined;
}

/** More outputs than any node has. The runtime visits all of them. */
const maxPort = 10_000;

/** Finds the first output or status of a subflow that is wired to an output that no list has. `__proto__` would change all lists. */
function findPortViolation({ out, status }: JsonObject): Violation | undefined {
  const outputs = Object.entries(Object(out) as JsonObject).map(([index, output]) => [["out", index], output] as const);
  for (const [path, output] of [...outputs, [["status"], status] as const]) {
    const { wires } = Object(output) as JsonObject;
    for (const [index, wire] of Object.entries(Object(wires) as JsonObject)) {
      const { port } = Object(wire) as JsonObject;
      const name = toKey(port);
      if (name === "__proto__" || Number(name) > maxPort) {
        const keys = [...path, "wires", index, "port"].map((key) => (/^\d+$/.test(key) ? Number(key) : key));
        return { path: keys, message: `must be the number of an output, at most ${maxPort}` };
      }
    }
  }
  return undefined;
}

/** For the runtime any falsy value means that there is no list. */
function isUnlisted(value: JsonValue | undefined): boolean {
  return Boolean(value) && !Array.isArray(value);
}

/** The inverse of `parseFlows`. A label that is not a string is in `properties`. */
export function toSubmittedNodes(flows: readonly FlowNode[]): SubmittedNode[] {
  return flows.map(({ id, type, ...properties }) => {
    if (typeof properties["label"] !== "string") {
      return { id, type, properties };
    }
    const { label, ...others } = properties;
    return { id, type, label, properties: others };
  });
}
