import type { JsonValue } from "../json.ts";
import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import {
  type Container,
  containerIdOf,
  globalContainer,
  hasPosition,
  nameOf,
  readContainers,
  roleOf,
} from "../nodes.ts";
import { isJsonObject, isSameJson } from "../json.ts";
import {
  type Aspect,
  type CredentialNames,
  type FlowsDiff,
  type NodeDiff,
  type PropertyChange,
  aspects,
  diffCredentialNames,
  hasCredentialNames,
} from "./differences.ts";
import { diffOrder } from "./order.ts";

/**
 * Compares two configurations node by node. The result contains the names of credentials, but never their values. Throws
 * `limit_exceeded` if it exceeds the budget.
 */
export function diffFlows(base: Configuration, target: Configuration, budget: Budget = new Budget()): FlowsDiff {
  const before = new Map(base.flows.map((node) => [node.id, node]));
  const after = new Map(target.flows.map((node) => [node.id, node]));
  const moves = diffOrder([...before.keys()], [...after.keys()]);
  const byContainer = new Map<string, NodeDiff[]>();
  const credentialsOf = (id: string): CredentialNames =>
    diffCredentialNames(base.credentials.get(id), target.credentials.get(id));

  function add(node: FlowNode, diff: NodeDiff): void {
    const container = containerIdOf(node);
    budget.addOutput(sizeOf(diff.id) + sizeOf(diff.type));
    for (const { path, before: old, after: current } of diff.properties) {
      budget.addOutput(path.reduce<number>((bytes, step) => bytes + sizeOf(step), sizeOf(old) + sizeOf(current)));
    }
    const diffs = byContainer.get(container);
    if (diffs === undefined) {
      byContainer.set(container, [diff]);
    } else if (node.id === container) {
      diffs.unshift(diff);
    } else {
      diffs.push(diff);
    }
  }

  for (const node of target.flows) {
    const diff = diffNode(before.get(node.id), node, credentialsOf(node.id), moves.get(node.id));
    if (diff !== undefined) {
      add(node, diff);
    }
  }
  for (const node of base.flows) {
    if (!after.has(node.id)) {
      add(node, removedNode(node, credentialsOf(node.id)));
    }
  }
  return {
    containers: orderedContainers(base, target).flatMap((container) => {
      const nodes = byContainer.get(container.id);
      return nodes === undefined ? [] : [{ ...container, nodes }];
    }),
  };
}

function orderedContainers(base: Configuration, target: Configuration): Container[] {
  const containers = readContainers(target.flows);
  const removed = [...readContainers(base.flows).values()].filter(({ id }) => !containers.has(id));
  return [...containers.values(), ...removed, globalContainer];
}

function diffNode(
  before: FlowNode | undefined,
  after: FlowNode,
  credentials: CredentialNames,
  predecessor: string | undefined,
): NodeDiff | undefined {
  if (before === undefined) {
    const properties = listProperties(after);
    return { ...describe(after), change: "added", aspects: [], properties, credentials, after: predecessor };
  }
  const properties = diffProperties(before, after);
  const changed = changedAspects(properties, before, after);
  if (predecessor !== undefined) {
    changed.add("order");
  }
  if (hasCredentialNames(credentials)) {
    changed.add("credentials");
  }
  return changed.size === 0
    ? undefined
    : {
        ...describe(after),
        change: "changed",
        aspects: aspects.filter((aspect) => changed.has(aspect)),
        properties,
        credentials,
        after: predecessor,
      };
}

function changedAspects(properties: readonly PropertyChange[], before: FlowNode, after: FlowNode): Set<Aspect> {
  return new Set(properties.map((property) => aspectOf(property, before, after)));
}

function removedNode(node: FlowNode, credentials: CredentialNames): NodeDiff {
  const properties = listProperties(node).map(({ path, after }) => ({ path, before: after, after: undefined }));
  return { ...describe(node), change: "removed", aspects: [], properties, credentials, after: undefined };
}

function describe(node: FlowNode): Pick<NodeDiff, "id" | "type" | "name" | "role"> {
  return { id: node.id, type: node.type, name: nameOf(node), role: roleOf(node) };
}

/** The part of a node that a changed property belongs to. */
function aspectOf({ path }: PropertyChange, before: FlowNode, after: FlowNode): Aspect {
  const [key] = path;
  switch (key) {
    case "x":
    case "y":
      // With both or without: the coordinates distinguish configuration nodes from others.
      return hasPosition(before) && hasPosition(after) ? "position" : "properties";
    case "w":
    case "h":
      return after.type === "group" ? "position" : "properties";
    case "z":
      return "container";
    case "g":
      return "group";
    case "nodes":
      return after.type === "group" ? "group" : "properties";
    case "wires":
      return "wires";
    case "links":
      return after.type.startsWith("link ") ? "wires" : "properties";
    case "in":
    case "out":
    case "status":
      return after.type === "subflow" ? aspectOfPort(path) : "properties";
    default:
      return "properties";
  }
}

/** `in[0].wires[0].id`, `out[0].x`, `status.y`, or a whole list of ports. */
function aspectOfPort(path: PropertyChange["path"]): Aspect {
  const member = path.find((step, index) => index > 0 && typeof step === "string");
  return member === "x" || member === "y" ? "position" : "wires";
}

/**
 * The properties in which two nodes differ, at the deepest path that describes the difference. Arrays of different lengths are
 * compared by element only if one begins with the other. An output's wires, and lists of links and members, are one value.
 */
function diffProperties(before: FlowNode, after: FlowNode): PropertyChange[] {
  const changes: PropertyChange[] = [];
  diffMembers(before, after, { path: [], changes });
  return changes;
}

/** All properties of a node but its id, as if it were added. */
function listProperties(node: FlowNode): PropertyChange[] {
  return Object.keys(node)
    .filter((key) => key !== "id")
    .map((key) => ({ path: [key], before: undefined, after: node[key] }));
}

/** The deepest elements whose value is one unit, by the name of their property. */
const unitDepths: ReadonlyMap<string | number, number> = new Map([
  ["wires", 2],
  ["links", 1],
  ["nodes", 1],
  ["scope", 1],
]);

type Members = { readonly [key: string]: JsonValue };

/** The path to the values that are compared, and the changes so far. */
type Comparison = { readonly path: (string | number)[]; readonly changes: PropertyChange[] };

function diffMembers(before: Members, after: Members, comparison: Comparison): void {
  for (const key of Object.keys(before)) {
    diffValue(key, before[key], ownMember(after, key), comparison);
  }
  for (const key of Object.keys(after)) {
    if (!Object.hasOwn(before, key)) {
      diffValue(key, undefined, after[key], comparison);
    }
  }
}

function ownMember(object: Members, key: string): JsonValue | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Visits each value once: values without a change below them are equal. */
function diffValue(
  step: string | number,
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  comparison: Comparison,
): void {
  if (before === after) {
    return;
  }
  const { path, changes } = comparison;
  path.push(step);
  const isUnit = path.length >= (unitDepths.get(path[0] as string) ?? Infinity);
  if (!isUnit && isJsonObject(before) && isJsonObject(after)) {
    diffMembers(before, after, comparison);
  } else if (!isUnit && Array.isArray(before) && Array.isArray(after) && isComparable(before, after)) {
    for (let index = 0; index < Math.max(before.length, after.length); index++) {
      diffValue(index, before[index], after[index], comparison);
    }
  } else if (!isSameJson(before, after)) {
    changes.push({ path: [...path], before, after });
  }
  path.pop();
}

/** Arrays of different lengths are compared by their elements if one begins with the other. */
function isComparable(one: readonly JsonValue[], other: readonly JsonValue[]): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return short.length === long.length || short.every((element, index) => isSameJson(element, long[index]));
}
