import { ScalarType, type DescMessage } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { isInt64 } from "../json/int64.ts";
import type { Schema } from "./document.ts";

/**
 * "simple" is what code generators understand: one schema of a message for requests and responses, and no alternatives for a value.
 * "exact" accepts just the JSON that the handler accepts and writes.
 */
export type SchemaForm = "simple" | "exact";

const int32: Schema = { type: "integer", format: "int32" };
const uint32: Schema = { type: "integer", format: "uint32", minimum: 0, maximum: 4_294_967_295 };
// Strings, since many JSON parsers have integers up to 2^53 only.
const int64: Schema = { type: "string", format: "int64", pattern: "^-?(?:0|[1-9][0-9]*)$" };
const uint64: Schema = { type: "string", format: "uint64", pattern: "^(?:0|[1-9][0-9]*)$" };
const float = (format: string): Schema => ({
  anyOf: [
    { type: "number", format },
    { type: "string", enum: ["NaN", "Infinity", "-Infinity"] },
  ],
});

const scalars: Readonly<Record<ScalarType, Schema>> = {
  [ScalarType.DOUBLE]: float("double"),
  [ScalarType.FLOAT]: float("float"),
  [ScalarType.INT64]: int64,
  [ScalarType.UINT64]: uint64,
  [ScalarType.INT32]: int32,
  [ScalarType.FIXED64]: uint64,
  [ScalarType.FIXED32]: uint32,
  [ScalarType.BOOL]: { type: "boolean" },
  [ScalarType.STRING]: { type: "string" },
  [ScalarType.BYTES]: { type: "string", contentEncoding: "base64" },
  [ScalarType.UINT32]: uint32,
  [ScalarType.SFIXED32]: int32,
  [ScalarType.SFIXED64]: int64,
  [ScalarType.SINT32]: int32,
  [ScalarType.SINT64]: int64,
};

// A 32-bit integer of most languages has not the range of uint32, and most generators don't know the format.
const simpleUint32: Schema = { type: "integer", format: "int64", minimum: 0, maximum: 4_294_967_295 };

/** Schemas for generators that can't use the exact ones. NaN and the infinities, which are strings, are left out. */
const simpleScalars: Readonly<Partial<Record<ScalarType, Schema>>> = {
  [ScalarType.DOUBLE]: { type: "number", format: "double" },
  [ScalarType.FLOAT]: { type: "number", format: "float" },
  [ScalarType.FIXED32]: simpleUint32,
  [ScalarType.UINT32]: simpleUint32,
  [ScalarType.BYTES]: { type: "string", format: "byte", contentEncoding: "base64" },
};

/** The schema of a scalar in the proto3 JSON mapping, or with the option `int64AsNumber`. */
export function scalarSchema(type: ScalarType, form: SchemaForm, int64AsNumber: boolean): Schema {
  if (int64AsNumber && isInt64(type)) {
    return { type: "integer", format: scalars[type]["format"] };
  }
  return structuredClone((form === "simple" ? simpleScalars[type] : undefined) ?? scalars[type]);
}

/** The schema of a value in a URL, a header or a form. Generated code writes no array of bytes there as base64. */
export function textSchema(schema: Schema, form: SchemaForm): Schema {
  if (schema["type"] === "array") {
    return { ...schema, items: textSchema(schema["items"] as Schema, form) };
  }
  return form === "simple" && schema["contentEncoding"] === "base64"
    ? { type: "string", description: "Bytes in base64." }
    : schema;
}

const wellKnown: Readonly<Record<string, Schema>> = {
  "google.protobuf.Timestamp": { type: "string", format: "date-time" },
  "google.protobuf.Duration": {
    type: "string",
    pattern: "^-?[0-9]+(?:\\.[0-9]{1,9})?s$",
    description: 'Seconds with the suffix "s", such as "1.5s".',
  },
  "google.protobuf.FieldMask": { type: "string", description: "Field paths, separated by commas." },
  "google.protobuf.Struct": { type: "object", additionalProperties: true },
  "google.protobuf.Value": { description: "Any JSON value." },
  "google.protobuf.ListValue": { type: "array", items: {} },
  "google.protobuf.Empty": { type: "object" },
  "google.protobuf.Any": {
    type: "object",
    description:
      "A message of any type: its fields, or a `value` if the type has a special JSON form. `{}` if it is not set.",
    properties: { "@type": { type: "string", description: "The type URL, `type.googleapis.com/…`." } },
    additionalProperties: true,
  },
};

/** Without `@type`, for which generated classes have another name: some then write both. */
const simpleAny: Schema = {
  type: "object",
  description:
    "A message of any type: its type URL in `@type`, `type.googleapis.com/…`, and its fields, or a `value` if the type has a special JSON form. `{}` if it is not set.",
  additionalProperties: true,
};

/** The schema of a well-known type with a special JSON form; undefined for all other messages. */
export function wellKnownSchema(desc: DescMessage, form: SchemaForm, int64AsNumber: boolean): Schema | undefined {
  if (isWrapperDesc(desc)) {
    const [field] = desc.fields;
    return scalarSchema(field.scalar, form, int64AsNumber);
  }
  const schema = form === "simple" && desc.typeName === "google.protobuf.Any" ? simpleAny : wellKnown[desc.typeName];
  return schema === undefined ? undefined : structuredClone(schema);
}
