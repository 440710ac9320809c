import type { JsonValue } from "@bufbuild/protobuf";
import { prependKeyIfFound, type Violation, prependKey } from "./violation.ts";

/**
 * How many objects and arrays may lie within each other, the node itself counted.
 *
 * Protobuf decoders give up beyond 100 messages within each other. One object of a Struct costs
 * two (Struct, Value), and three with those that count map entries (C++, Java, Python): with the request and
 * the node, 32 levels are what all of them can read.
 */
export const MAX_DEPTH = 32;

/** The first thing in a value that not every protocol can carry; `level` is the value's own, a node's is 1. */
export function findJsonViolation(value: JsonValue | undefined, level: number): Violation | undefined {
  switch (typeof value) {
    case "string":
      return findTextViolation(value);
    case "number":
      return Number.isFinite(value) ? undefined : { path: [], what: "must be a finite number" };
    case "boolean":
      return undefined;
    case "object":
      if (value === null) {
        return undefined;
      }
      // The recursion ends here too, so that no document can exhaust the stack.
      if (level > MAX_DEPTH) {
        return { path: [], what: `must not lie deeper than ${MAX_DEPTH} levels of objects and arrays` };
      }
      return Array.isArray(value) ? findElementFault(value, level) : findMemberFault(value, level);
    default:
      return { path: [], what: "must be a JSON value" };
  }
}

/** Keys that can't be carried everywhere, or that change what an object is. */
export function findKeyViolation(key: string): Violation | undefined {
  if (key === "__proto__") {
    return { path: [key], what: "this key is not allowed" };
  }
  return key.isWellFormed()
    ? undefined
    : { path: [key], what: "the key must be valid Unicode, without lone surrogates" };
}

export function findTextViolation(text: string): Violation | undefined {
  return text.isWellFormed() ? undefined : { path: [], what: "must be valid Unicode, without lone surrogates" };
}

function findElementFault(elements: readonly JsonValue[], level: number): Violation | undefined {
  for (let index = 0; index < elements.length; index++) {
    const violation = findJsonViolation(elements[index], level + 1);
    if (violation !== undefined) {
      return prependKey(index, violation);
    }
  }
  return undefined;
}

function findMemberFault(object: { readonly [key: string]: JsonValue }, level: number): Violation | undefined {
  for (const key of Object.keys(object)) {
    const violation = findKeyViolation(key) ?? prependKeyIfFound(key, findJsonViolation(object[key], level + 1));
    if (violation !== undefined) {
      return violation;
    }
  }
  return undefined;
}
