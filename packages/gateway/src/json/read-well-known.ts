import { create, fromJson, type DescMessage, type JsonValue } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { ValueError, type Read } from "./value-error.ts";
import { expectedOf, scalarFromJson, toLocal } from "./scalar.ts";
import { textForms } from "./well-known.ts";
import { isObject } from "./is-object.ts";
import { WideInteger } from "./wide-integer.ts";

/** The document's depth is limited already; protobuf-es counts several messages for each level of JSON. */
const NO_RECURSION_LIMIT = 1_000_000;

/**
 * Creates the reader of a google.protobuf message with a JSON form of its own, except Any. It returns a Struct as a plain
 * object, and all others as messages. With `exact`, documents may contain wide integers.
 */
export function createWellKnownReader(desc: DescMessage, exact: boolean): Read {
  const form = textForms.get(desc.typeName);
  if (form !== undefined) {
    return (value) => {
      const result = typeof value === "string" ? form.parse(value) : undefined;
      if (result === undefined) {
        throw new ValueError(`must be ${form.expected}`);
      }
      return result;
    };
  }
  if (isWrapperDesc(desc)) {
    const [field] = desc.fields;
    const local = toLocal(field);
    return (value) => {
      const bare = local(scalarFromJson(field.scalar, value));
      if (bare === undefined) {
        throw new ValueError(`must be ${expectedOf[field.scalar]}`);
      }
      return create(desc, { value: bare });
    };
  }
  const plain = exact ? withDoubles : (value: unknown) => value;
  if (desc.typeName === "google.protobuf.Struct") {
    return (value) => {
      if (!isObject(value)) {
        throw new ValueError("must be an object");
      }
      return plain(value);
    };
  }
  const expected = desc.typeName === "google.protobuf.ListValue" ? "an array" : "a JSON value";
  return (value) => {
    try {
      return fromJson(desc, plain(value) as JsonValue, { recursionLimit: NO_RECURSION_LIMIT });
    } catch {
      throw new ValueError(`must be ${expected}`);
    }
  };
}

/** Rounds the wide integers of a JSON value, as JSON.parse does. */
function withDoubles(value: unknown): unknown {
  if (value instanceof WideInteger) {
    return value.round();
  }
  if (Array.isArray(value)) {
    return value.map(withDoubles);
  }
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withDoubles(item)]))
    : value;
}
