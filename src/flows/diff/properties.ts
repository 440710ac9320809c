import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { JsonPath } from "@flowgate/transcoding/json-path";
import type { FlowNode } from "../configuration.ts";
import { isSameJson } from "../same-json.ts";
import type { PropertyChange } from "./flows-diff.ts";

/**
 * The properties in which two nodes differ, at the deepest path that describes the difference. Arrays of different lengths are
 * compared by element only if one begins with the other. An output's wires, and lists of links and members, are one value.
 */
export function diffProperties(before: FlowNode, after: FlowNode): PropertyChange[] {
  return diffMembers([], before, after, 0);
}

/** All properties of a node but its id, as if it were added. */
export function listProperties(node: FlowNode): PropertyChange[] {
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

function diffMembers(path: JsonPath, before: Members, after: Members, depth: number): PropertyChange[] {
  const changes: PropertyChange[] = [];
  for (const key of Object.keys(before)) {
    const value = ownMember(after, key);
    if (!isSameJson(before[key], value)) {
      changes.push(...diffValue([...path, key], before[key], value, depth + 1));
    }
  }
  for (const key of Object.keys(after)) {
    if (!Object.hasOwn(before, key)) {
      changes.push({ path: [...path, key], before: undefined, after: after[key] });
    }
  }
  return changes;
}

function ownMember(object: Members, key: string): JsonValue | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** The two values must be different. */
function diffValue(
  path: JsonPath,
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  depth: number,
): PropertyChange[] {
  const isUnit = depth >= (unitDepths.get(path[0] as string) ?? Infinity);
  if (!isUnit && isObject(before) && isObject(after)) {
    return diffMembers(path, before, after, depth);
  }
  if (!isUnit && Array.isArray(before) && Array.isArray(after) && isComparable(before, after)) {
    return Array.from({ length: Math.max(before.length, after.length) }, (_, index) =>
      isSameJson(before[index], after[index])
        ? []
        : diffValue([...path, index], before[index], after[index], depth + 1),
    ).flat();
  }
  return [{ path, before, after }];
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isComparable(one: readonly JsonValue[], other: readonly JsonValue[]): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return short.length === long.length || short.every((element, index) => isSameJson(element, long[index]));
}
