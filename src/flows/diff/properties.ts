import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FlowNode } from "../configuration.ts";
import { isSameJson } from "../same-json.ts";
import type { PropertyChange } from "./flows-diff.ts";

/**
 * The properties in which two nodes differ, at the deepest path that describes the difference. Arrays of different lengths are
 * compared by element only if one begins with the other. An output's wires, and lists of links and members, are one value.
 */
export function diffProperties(before: FlowNode, after: FlowNode): PropertyChange[] {
  const changes: PropertyChange[] = [];
  diffMembers(before, after, { path: [], changes });
  return changes;
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
  if (!isUnit && isObject(before) && isObject(after)) {
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

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Arrays of different lengths are compared by their elements if one begins with the other. */
function isComparable(one: readonly JsonValue[], other: readonly JsonValue[]): boolean {
  const [short, long] = one.length < other.length ? [one, other] : [other, one];
  return short.length === long.length || short.every((element, index) => isSameJson(element, long[index]));
}
