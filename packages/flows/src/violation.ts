import type { JsonValue } from "./json.ts";
import { formatPath } from "@flowgate/gateway/json-path";
import type { JsonPath } from "./json.ts";
import { FlowgateError } from "./errors.ts";

/** Why a value is invalid; `path` leads from the value to the invalid part. */
export type Violation = { readonly path: JsonPath; readonly message: string };

export function prependKey(key: string | number, violation: Violation): Violation {
  return { path: [key, ...violation.path], message: violation.message };
}

export function prependKeyIfFound(key: string | number, violation: Violation | undefined): Violation | undefined {
  return violation && prependKey(key, violation);
}

export function invalidFlows({ path, message }: Violation): FlowgateError {
  return new FlowgateError("invalid_flows", `${formatPath(path)}: ${message}`);
}

/** gRPC sends messages in headers, which are limited to a few kilobytes. */
const maxQuotedChars = 64;

/** Quotes and shortens text of the client for a message. */
export function quoteInput(text: string): string {
  return JSON.stringify(text.length > maxQuotedChars ? `${text.slice(0, maxQuotedChars)}…` : text);
}

/**
 * The maximum nesting of objects and arrays, including the node itself.
 *
 * Protobuf decoders reject more than 100 nested messages. Each object in a Struct counts as two (Struct, Value), and as three
 * in decoders that count map entries (C++, Java, Python). Including the request and the node, all of them accept 32 levels.
 */
export const maxNodeDepth = 32;

/** Finds the first part of a value that some protocol can't represent. `level` is the nesting of the value; a node has 1. */
export function findJsonViolation(value: JsonValue | undefined, level: number): Violation | undefined {
  switch (typeof value) {
    case "string":
      return findTextViolation(value);
    case "number":
      return Number.isFinite(value) ? undefined : { path: [], message: "must be a finite number" };
    case "boolean":
      return undefined;
    case "object":
      if (value === null) {
        return undefined;
      }
      // Limits the recursion too, so that a document can't overflow the stack.
      if (level > maxNodeDepth) {
        return { path: [], message: `must not be nested deeper than ${maxNodeDepth} levels of objects and arrays` };
      }
      return Array.isArray(value) ? findElementViolation(value, level) : findMemberViolation(value, level);
    default:
      return { path: [], message: "must be a JSON value" };
  }
}

/**
 * Rejects keys that some protocol can't represent, `__proto__`, which can change the prototype of an object, and
 * `hasOwnProperty`, since the flow runtime calls the method of this name.
 */
export function findKeyViolation(key: string): Violation | undefined {
  if (key === "__proto__" || key === "hasOwnProperty") {
    return { path: [key], message: "this key is not allowed" };
  }
  return key.isWellFormed()
    ? undefined
    : { path: [key], message: "the key must be valid Unicode, without lone surrogates" };
}

export function findTextViolation(text: string): Violation | undefined {
  return text.isWellFormed() ? undefined : { path: [], message: "must be valid Unicode, without lone surrogates" };
}

function findElementViolation(elements: readonly JsonValue[], level: number): Violation | undefined {
  for (let index = 0; index < elements.length; index++) {
    const violation = findJsonViolation(elements[index], level + 1);
    if (violation !== undefined) {
      return prependKey(index, violation);
    }
  }
  return undefined;
}

function findMemberViolation(object: { readonly [key: string]: JsonValue }, level: number): Violation | undefined {
  for (const key of Object.keys(object)) {
    // The flow runtime converts the values of properties to text.
    const violation =
      key === "toString"
        ? { path: [key], message: "this key is not allowed" }
        : (findKeyViolation(key) ?? prependKeyIfFound(key, findJsonViolation(object[key], level + 1)));
    if (violation !== undefined) {
      return violation;
    }
  }
  return undefined;
}
