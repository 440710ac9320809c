import {
  toJson,
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Message,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence, isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { enumSpelling, fieldRule } from "../rules.ts";
import { scalarToJson, type Scalar } from "./scalar.ts";

/** Gives the JSON value of a message or of a field's value. */
export type JsonWriter = (value: unknown) => unknown;

const known = new WeakMap<DescMessage, JsonWriter>();

/** Compiled once a message, so that a recursive one ends. */
export function messageWriter(desc: DescMessage): JsonWriter {
  const writer = known.get(desc);
  if (writer !== undefined) {
    return writer;
  }
  let compiled: JsonWriter | undefined;
  const lazy: JsonWriter = (value) => (compiled ??= compileMessage(desc))(value);
  known.set(desc, lazy);
  return lazy;
}

/** Writes a field's own value: an array for a repeated field, null for an absent message. */
export function fieldWriter(field: DescField): JsonWriter {
  switch (field.fieldKind) {
    case "scalar":
      return (value) => scalarToJson(value as Scalar);
    case "enum":
      return enumWriter(field.enum);
    case "message": {
      const message = messageWriter(field.message);
      return (value) => (value === undefined ? null : message(value));
    }
    case "list": {
      const item = itemWriter(field);
      return (value) => (value as unknown[]).map((each) => item(each));
    }
    case "map": {
      const item = itemWriter(field);
      return (value) => Object.fromEntries(Object.entries(value as object).map(([key, each]) => [key, item(each)]));
    }
  }
}

function itemWriter(field: DescField & { fieldKind: "list" | "map" }): JsonWriter {
  if (field.message !== undefined) {
    return messageWriter(field.message);
  }
  return field.enum === undefined ? (value) => scalarToJson(value as Scalar) : enumWriter(field.enum);
}

function enumWriter(desc: DescEnum): JsonWriter {
  const { nameOf } = enumSpelling(desc);
  return (value) => nameOf.get(value as number) ?? value;
}

type FieldWriter = {
  readonly key: string;
  /** The field's value, or undefined where it is not written. */
  readonly get: (message: Record<string, unknown>) => unknown;
  readonly write: JsonWriter;
  readonly inline: boolean;
};

function compileMessage(desc: DescMessage): JsonWriter {
  if (desc.typeName.startsWith("google.protobuf.")) {
    return writeWellKnown(desc);
  }
  const fields = desc.fields
    .filter((field) => fieldRule(field).header === "")
    .map((field): FieldWriter => ({
      key: field.jsonName,
      get: getterOf(field),
      write: fieldWriter(field),
      inline: fieldRule(field).inline,
    }));
  return (message) => {
    const result: Record<string, unknown> = {};
    for (const field of fields) {
      const value = field.get(message as Record<string, unknown>);
      if (value === undefined) {
        continue;
      }
      if (field.inline) {
        Object.assign(result, field.write(value));
      } else {
        result[field.key] = field.write(value);
      }
    }
    return result;
  };
}

function getterOf(field: DescField): FieldWriter["get"] {
  const { oneof, localName } = field;
  if (oneof !== undefined) {
    return (message) => {
      const member = message[oneof.localName] as { case: string | undefined; value?: unknown };
      return member.case === localName ? member.value : undefined;
    };
  }
  const get = (message: Record<string, unknown>): unknown => message[localName];
  if (fieldRule(field).always) {
    return get;
  }
  switch (field.fieldKind) {
    case "list":
      return (message) => ((message[localName] as unknown[]).length === 0 ? undefined : message[localName]);
    case "map":
      return (message) => (Object.keys(message[localName] as object).length === 0 ? undefined : message[localName]);
    case "message":
      return get;
    default:
      // Without presence, the zero value is not written; with it, absence is undefined.
      return hasPresence(field) ? get : (message) => (isZero(message[localName]) ? undefined : message[localName]);
  }
}

function hasPresence(field: DescField): boolean {
  return field.presence !== FeatureSet_FieldPresence.IMPLICIT;
}

function isZero(value: unknown): boolean {
  return (
    value === "" ||
    value === false ||
    value === 0n ||
    Object.is(value, 0) ||
    (value instanceof Uint8Array && value.length === 0)
  );
}

function writeWellKnown(desc: DescMessage): JsonWriter {
  if (desc.typeName === "google.protobuf.Struct") {
    return (value) => value;
  }
  if (isWrapperDesc(desc)) {
    return (value) => scalarToJson(value as Scalar);
  }
  return (value): JsonValue => toJson(desc, value as Message);
}
