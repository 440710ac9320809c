import {
  ScalarType,
  toJson,
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Message,
} from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence, isWrapperDesc, type FieldMask, type Timestamp } from "@bufbuild/protobuf/wkt";
import { enumSpelling, fieldRule } from "../rules.ts";
import { scalarToJson, type Scalar } from "./scalar.ts";
import { formatTimestamp } from "./well-known.ts";

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
      return writeScalar;
    case "enum":
      return enumWriter(field.enum);
    case "message": {
      const message = messageWriter(field.message);
      // As protobuf-es has it: a singular wrapper is its bare value in memory.
      const write = field.oneof === undefined && isWrapperDesc(field.message) ? writeScalar : message;
      return (value) => (value === undefined ? null : write(value));
    }
    case "list": {
      const item = itemWriter(field);
      return (value) => {
        const result: unknown[] = [];
        for (const each of value as unknown[]) {
          result.push(item(each));
        }
        return result;
      };
    }
    case "map": {
      const item = itemWriter(field);
      return (value) => {
        const result: Record<string, unknown> = {};
        for (const key of Object.keys(value as object)) {
          setOwn(result, key, item((value as Record<string, unknown>)[key]));
        }
        return result;
      };
    }
  }
}

function itemWriter(field: DescField & { fieldKind: "list" | "map" }): JsonWriter {
  if (field.message !== undefined) {
    return messageWriter(field.message);
  }
  return field.enum === undefined ? writeScalar : enumWriter(field.enum);
}

const writeScalar: JsonWriter = (value) => scalarToJson(value as Scalar);

function assign(target: Record<string, unknown>, source: Record<string, unknown>): void {
  if (Object.hasOwn(source, "__proto__")) {
    for (const [key, value] of Object.entries(source)) {
      setOwn(target, key, value);
    }
  } else {
    Object.assign(target, source);
  }
}

/** A map from another protocol may have a key that would set the prototype. */
function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

function enumWriter(desc: DescEnum): JsonWriter {
  if (desc.typeName === "google.protobuf.NullValue") {
    return () => null;
  }
  const { nameOf } = enumSpelling(desc);
  return (value) => nameOf.get(value as number) ?? value;
}

type FieldWriter = {
  readonly key: string;
  readonly localName: string;
  /** The value that is not written, of a field whose values stand in JSON as they are; else undefined. */
  readonly zero: unknown;
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
      localName: field.localName,
      zero: plainZeroOf(field),
      get: getterOf(field),
      write: fieldWriter(field),
      inline: fieldRule(field).inline,
    }));
  return (message) => {
    const result: Record<string, unknown> = {};
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i] as FieldWriter;
      if (field.zero !== undefined) {
        const value = (message as Record<string, unknown>)[field.localName];
        if (value !== field.zero) {
          result[field.key] = value;
        }
        continue;
      }
      const value = field.get(message as Record<string, unknown>);
      if (value === undefined) {
        continue;
      }
      if (field.inline) {
        assign(result, field.write(value) as Record<string, unknown>);
      } else {
        result[field.key] = field.write(value);
      }
    }
    return result;
  };
}

/** Most fields are such: nothing is to be done to write them. */
function plainZeroOf(field: DescField): unknown {
  if (
    field.fieldKind !== "scalar" ||
    field.oneof !== undefined ||
    field.presence !== FeatureSet_FieldPresence.IMPLICIT ||
    fieldRule(field).always
  ) {
    return undefined;
  }
  switch (field.scalar) {
    case ScalarType.STRING:
      return "";
    case ScalarType.BOOL:
      return false;
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return 0;
    default:
      return undefined;
  }
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
      return (message) => (isEmpty(message[localName] as object) ? undefined : message[localName]);
    case "message":
      return get;
    default: {
      if (field.presence === FeatureSet_FieldPresence.IMPLICIT) {
        const zero = field.fieldKind === "enum" ? field.enum.values[0]?.number : undefined;
        return (message) => {
          const value = message[localName];
          // The zero value is not written; of an enum, its first.
          return value === zero || (zero === undefined && isZero(value)) ? undefined : value;
        };
      }
      // With presence, absence is undefined; in proto2 and editions, the default that the prototype has.
      return (message) => (Object.hasOwn(message, localName) ? message[localName] : undefined);
    }
  }
}

function isEmpty(map: object): boolean {
  for (const _key in map) {
    return false;
  }
  return true;
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
    return (value) => scalarToJson((value as Message & { value: Scalar }).value);
  }
  if (desc.typeName === "google.protobuf.Timestamp") {
    return (value) => formatTimestamp(value as Timestamp);
  }
  if (desc.typeName === "google.protobuf.FieldMask") {
    return (value) => (value as FieldMask).paths.map(camelCase).join(",");
  }
  return (value): JsonValue => toJson(desc, value as Message);
}

/** A path that could not be read back from lowerCamelCase stays as it is. */
function camelCase(path: string): string {
  return /^[a-z][a-z\d]*(?:[._][a-z][a-z\d]*)*$/.test(path)
    ? path.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())
    : path;
}
