import { create, fromJson, type DescMessage, type JsonValue } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { ValueError, type Read } from "./value-error.ts";
import { expectedOf, scalarFromJson, toLocal } from "./scalar.ts";
import { textForms } from "./well-known.ts";
import { isObject, WideInteger } from "./wide-integer.ts";

/** Below a document's own limit of depth; each level of JSON counts as several messages. */
const NO_RECURSION_LIMIT = 1_000_000;

/**
 * Compiles the reader of a google.protobuf message that has a JSON form of its own, but Any. A Struct is plain JSON in
 * memory too; the others are messages. Where documents are exact, wide integers are among the numbers in them.
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

/** A JSON value as JSON.parse gives it: numbers in it are doubles. */
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
