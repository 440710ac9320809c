import {
  create,
  ScalarType,
  toJson,
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Message,
  type Registry,
} from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation, isWrapperDesc, type FieldMask, type Timestamp } from "@bufbuild/protobuf/wkt";
import { FieldRuleSchema, type FieldRule } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { enumNames, fieldRule, protoEnumNames, type EnumNames } from "../schema/rules.ts";
import { createAnyWriter } from "./any.ts";
import { canonicalJson, isEmitted, isEmittedAsNull, jsonKey, type CompleteJsonOptions } from "./json-options.ts";
import { isInt64 } from "./int64.ts";
import { setOwn } from "./object.ts";
import {
  integerFromDigits,
  plainEntriesCount,
  plainItemsCheck,
  scalarFromText,
  scalarToJson,
  type Scalar,
} from "./scalar.ts";
import { formatTimestamp } from "./well-known.ts";
import { compileMembersWriter, emptyMap } from "./write-members.ts";

export type JsonWriter = (value: unknown) => unknown;

/**
 * The field options that apply. "plain": none, as in the proto3 JSON mapping. "response": the options for responses.
 * "request": these and `required`; required fields are sent even if empty.
 */
export type WriteDialect = "response" | "request" | "plain";

type WriteOptions = {
  /** The messages that a google.protobuf.Any can contain. */
  readonly registry: Registry;
  readonly dialect: WriteDialect;
  readonly json: CompleteJsonOptions;
};

type Context = WriteOptions & {
  readonly known: WeakMap<DescMessage, JsonWriter>;
  readonly ruleOf: (field: DescField) => FieldRule;
  readonly spellingOf: (desc: DescEnum) => EnumNames;
};

const contexts = new Map<string, WeakMap<Registry, Context>>();

function contextOf(options: WriteOptions): Context {
  const { dialect, json } = options;
  const { alwaysEmitImplicit, emitUnsetMessages, enumAsInteger, int64AsNumber, useProtoFieldName } = json;
  const key = [dialect, alwaysEmitImplicit, emitUnsetMessages, enumAsInteger, int64AsNumber, useProtoFieldName].join(
    " ",
  );
  const known = contexts.get(key) ?? new WeakMap<Registry, Context>();
  contexts.set(key, known);
  let context = known.get(options.registry);
  if (context === undefined) {
    const noRule = create(FieldRuleSchema);
    context = {
      ...options,
      known: new WeakMap(),
      ruleOf: dialect === "plain" ? () => noRule : fieldRule,
      spellingOf: dialect === "plain" ? protoEnumNames : enumNames,
    };
    known.set(options.registry, context);
  }
  return context;
}

/**
 * Returns the writer of a message, which is created once and when it is first used, because messages may be recursive. The
 * registry contains the messages that a google.protobuf.Any can contain.
 */
export function messageWriter(
  desc: DescMessage,
  registry: Registry,
  dialect: WriteDialect = "response",
  json: CompleteJsonOptions = canonicalJson,
): JsonWriter {
  return writerIn(contextOf({ registry, dialect, json }), desc);
}

function writerIn(context: Context, desc: DescMessage): JsonWriter {
  const { known } = context;
  const writer = known.get(desc);
  if (writer !== undefined) {
    return writer;
  }
  let compiled: JsonWriter | undefined;
  const lazy: JsonWriter = (value) => (compiled ??= compileMessage(desc, context))(value);
  known.set(desc, lazy);
  return lazy;
}

/** Returns the writer of a field's value: an array for a repeated field, null for an absent message. */
export function fieldWriter(
  field: DescField,
  registry: Registry,
  dialect: WriteDialect = "response",
  json: CompleteJsonOptions = canonicalJson,
): JsonWriter {
  return fieldWriterIn(contextOf({ registry, dialect, json }), field);
}

function fieldWriterIn(context: Context, field: DescField): JsonWriter {
  switch (field.fieldKind) {
    case "scalar":
      return scalarWriter(field, context);
    case "enum":
      return enumWriter(field.enum, context);
    case "message": {
      const message = writerIn(context, field.message);
      // protobuf-es represents a singular wrapper by its value.
      const write =
        field.oneof === undefined && isWrapperDesc(field.message)
          ? scalarWriter(field.message.fields[0], context)
          : message;
      return (value) => (value === undefined ? null : write(value));
    }
    case "list": {
      const item = itemWriter(field, context);
      const isPlain = plainItemsCheck(field.scalar);
      return (value) => {
        if (Array.isArray(value) && isPlain(value)) {
          return value;
        }
        const result: unknown[] = [];
        for (const each of value as unknown[]) {
          result.push(item(each));
        }
        return result;
      };
    }
    case "map": {
      const item = itemWriter(field, context);
      const { mapKey } = field;
      const countPlain = mapKey === ScalarType.STRING ? plainEntriesCount(field.scalar) : () => -1;
      return (value) => {
        const plain = countPlain(value as object);
        if (plain !== -1) {
          return plain === 0 ? emptyMap : value;
        }
        let result = emptyMap;
        for (const key in value as Record<string, unknown>) {
          if (mapKey !== ScalarType.STRING && scalarFromText(mapKey, key) === undefined) {
            reject(field, key);
          }
          result = result === emptyMap ? {} : result;
          setOwn(result, key, item((value as Record<string, unknown>)[key]));
        }
        return result;
      };
    }
  }
}

function itemWriter(field: DescField & { fieldKind: "list" | "map" }, context: Context): JsonWriter {
  if (field.message !== undefined) {
    return writerIn(context, field.message);
  }
  return field.enum === undefined ? scalarWriter(field, context) : enumWriter(field.enum, context);
}

function scalarWriter(field: DescField & { scalar: ScalarType }, { json }: Context): JsonWriter {
  if (json.int64AsNumber && isInt64(field.scalar)) {
    return (value) => integerFromDigits((scalarToJson(field, value) ?? reject(field, value)) as string);
  }
  return (value) => scalarToJson(field, value) ?? reject(field, value);
}

/** Values of another type, which the types of TypeScript don't exclude, such as NaN in an integer. Readers would reject them. */
function reject(desc: DescField | DescEnum, value: unknown): never {
  const shown = typeof value === "number" || typeof value === "bigint" ? String(value) : `this ${typeof value}`;
  throw new RangeError(`${desc.toString()} can't hold ${shown}`);
}

function enumWriter(desc: DescEnum, { spellingOf, json }: Context): JsonWriter {
  if (desc.typeName === "google.protobuf.NullValue") {
    return () => null;
  }
  const nameOf = json.enumAsInteger ? new Map<number, string>() : spellingOf(desc).nameOf;
  return (value) => nameOf.get(value as number) ?? (value === ((value as number) | 0) ? value : reject(desc, value));
}

function compileMessage(desc: DescMessage, context: Context): JsonWriter {
  if (hasCustomJsonRepresentation(desc)) {
    return writeWellKnown(desc, context);
  }
  const writers = desc.fields.flatMap((field) => {
    const { header, mediaType, always, required, inline, lenient } = context.ruleOf(field);
    return header === "" && mediaType === ""
      ? [
          {
            field,
            key: jsonKey(field, context.json),
            write: fieldWriterIn(context, field),
            always: always || isEmitted(field, context.json) || (required && context.dialect === "request"),
            orNull: !inline && isEmittedAsNull(field, context.json),
            inline,
            lenient,
          },
        ]
      : [];
  });
  const [declared, inline] = [writers.filter((writer) => !writer.inline), writers.filter((writer) => writer.inline)];
  return compileMembersWriter([...declared, ...inline]) as JsonWriter;
}

function writeWellKnown(desc: DescMessage, context: Context): JsonWriter {
  const { registry } = context;
  if (desc.typeName === "google.protobuf.Struct") {
    return (value) => value;
  }
  if (isWrapperDesc(desc)) {
    const write = scalarWriter(desc.fields[0], context);
    return (value) => write((value as Message & { value: Scalar }).value);
  }
  if (desc.typeName === "google.protobuf.Timestamp") {
    return (value) => formatTimestamp(value as Timestamp);
  }
  if (desc.typeName === "google.protobuf.FieldMask") {
    return (value) => (value as FieldMask).paths.map(camelCase).join(",");
  }
  if (desc.typeName === "google.protobuf.Any") {
    return createAnyWriter(registry, (held) => writerIn(context, held));
  }
  return (value): JsonValue => toJson(desc, value as Message, { registry });
}

/** A path that could not be converted back from lowerCamelCase is written unchanged. */
function camelCase(path: string): string {
  return /^[a-z][a-z\d]*(?:[._][a-z][a-z\d]*)*$/.test(path)
    ? path.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())
    : path;
}
