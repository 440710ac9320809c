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
import {
  FeatureSet_FieldPresence,
  hasCustomJsonRepresentation,
  isWrapperDesc,
  type FieldMask,
  type Timestamp,
} from "@bufbuild/protobuf/wkt";
import { FieldRuleSchema, type FieldRule } from "../../gen/transcoding/v1/annotations_pb.ts";
import { enumNames, fieldRule, protoEnumNames, type EnumNames } from "../schema/rules.ts";
import { createAnyWriter } from "./any.ts";
import { compile, literal } from "./compile.ts";
import { plainCondition, plainItemsCheck, scalarToJson, type Scalar } from "./scalar.ts";
import { formatTimestamp } from "./well-known.ts";

/** Gives the JSON value of a message or of a field's value. */
export type JsonWriter = (value: unknown) => unknown;

/** What the writers of one set of messages share. */
type WriteOptions = {
  /** What a google.protobuf.Any may hold. */
  readonly registry: Registry;
  /** By the proto3 JSON mapping alone, without our own options. */
  readonly plain: boolean;
};

type Context = WriteOptions & {
  readonly known: WeakMap<DescMessage, JsonWriter>;
  readonly ruleOf: (field: DescField) => FieldRule;
  readonly spellingOf: (desc: DescEnum) => EnumNames;
};

const contexts = { plain: new WeakMap<Registry, Context>(), own: new WeakMap<Registry, Context>() };

function contextOf(options: WriteOptions): Context {
  const known = options.plain ? contexts.plain : contexts.own;
  let context = known.get(options.registry);
  if (context === undefined) {
    const noRule = create(FieldRuleSchema);
    context = {
      ...options,
      known: new WeakMap(),
      ruleOf: options.plain ? () => noRule : fieldRule,
      spellingOf: options.plain ? protoEnumNames : enumNames,
    };
    known.set(options.registry, context);
  }
  return context;
}

/** Compiled once a message, so that a recursive one ends. The registry has what a google.protobuf.Any may hold. */
export function messageWriter(desc: DescMessage, registry: Registry, plain = false): JsonWriter {
  return writerIn(contextOf({ registry, plain }), desc);
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

/** Writes a field's own value: an array for a repeated field, null for an absent message. */
export function fieldWriter(field: DescField, registry: Registry): JsonWriter {
  return fieldWriterIn(contextOf({ registry, plain: false }), field);
}

function fieldWriterIn(context: Context, field: DescField): JsonWriter {
  switch (field.fieldKind) {
    case "scalar":
      return scalarWriter(field);
    case "enum":
      return enumWriter(field.enum, context);
    case "message": {
      const message = writerIn(context, field.message);
      // As protobuf-es has it: a singular wrapper is its bare value in memory.
      const write =
        field.oneof === undefined && isWrapperDesc(field.message) ? scalarWriter(field.message.fields[0]) : message;
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

function itemWriter(field: DescField & { fieldKind: "list" | "map" }, context: Context): JsonWriter {
  if (field.message !== undefined) {
    return writerIn(context, field.message);
  }
  return field.enum === undefined ? scalarWriter(field) : enumWriter(field.enum, context);
}

const writeScalar: JsonWriter = (value) => scalarToJson(value as Scalar);

function scalarWriter(field: DescField & { scalar: ScalarType }): JsonWriter {
  switch (field.scalar) {
    case ScalarType.INT32:
    case ScalarType.SINT32:
    case ScalarType.SFIXED32:
      return (value) => (value === ((value as number) | 0) ? value : refuse(field, value));
    case ScalarType.UINT32:
    case ScalarType.FIXED32:
      return (value) => (value === (value as number) >>> 0 ? value : refuse(field, value));
    default:
      return writeScalar;
  }
}

/** NaN and fractions are numbers to TypeScript; in JSON they would be null, or nothing that a reader of the type takes. */
function refuse(desc: DescField | DescEnum, value: unknown): never {
  throw new RangeError(`${desc.toString()} can't hold ${String(value)}`);
}

/**
 * Compiles what adds the keys of an inline field, but none that another field has for its name: who reads them would take
 * them for that one. What does not fit a lenient field is kept under its name, and so may stand in its place.
 */
function createAssign(
  fields: readonly DescField[],
  { ruleOf }: Context,
): (target: Record<string, unknown>, source: object) => void {
  const namesOf = (some: readonly DescField[]): string[] => some.flatMap(({ name, jsonName }) => [name, jsonName]);
  const declared = new Set(namesOf(fields.filter((field) => !ruleOf(field).lenient)));
  const assignSome = (target: Record<string, unknown>, source: object): void => {
    for (const [key, value] of Object.entries(source)) {
      if (!declared.has(key) && !Object.hasOwn(target, key)) {
        setOwn(target, key, value);
      }
    }
  };
  // `in` finds what is inherited too, which does no harm here, and is several times as fast.
  const names = [...new Set(namesOf(fields))].map((name) => `${literal(name)} in source`);
  const isSpecial = [...names, `Object.hasOwn(source, "__proto__")`].join(" || ");
  return compile(
    { assignSome },
    `return (target, source) => { if (${isSpecial}) assignSome(target, source); else Object.assign(target, source); };`,
  ) as ReturnType<typeof createAssign>;
}

/** A map from another protocol may have a key that would set the prototype. */
function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === "__proto__") {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    target[key] = value;
  }
}

function enumWriter(desc: DescEnum, { spellingOf }: Context): JsonWriter {
  if (desc.typeName === "google.protobuf.NullValue") {
    return () => null;
  }
  const { nameOf } = spellingOf(desc);
  return (value) => nameOf.get(value as number) ?? (value === ((value as number) | 0) ? value : refuse(desc, value));
}

/**
 * Compiles a function with a statement for each field, such as `if (m.text !== "") r["text"] = m.text;`. The values of most fields
 * stand in JSON as they are.
 */
function compileMessage(desc: DescMessage, context: Context): JsonWriter {
  const { ruleOf } = context;
  if (hasCustomJsonRepresentation(desc)) {
    return writeWellKnown(desc, context);
  }
  const inBody = desc.fields.filter((field) => ruleOf(field).header === "");
  const declared = inBody.filter((field) => !ruleOf(field).inline);
  const inline = inBody.filter((field) => ruleOf(field).inline);
  const given: Record<string, unknown> = { assign: createAssign(declared, context), isEmpty, setOwn };
  const statements = [...declared, ...inline].map((field, at) => {
    const rule = ruleOf(field);
    const { value, condition } = readerOf(field, rule);
    given[`write${at}`] = fieldWriterIn(context, field);
    const written = writingOf(field, value, `write${at}`);
    return `if (${condition}) ${setterOf(field, rule, written)};`;
  });
  return compile(given, `return (m) => { const r = {}; ${statements.join("\n")} return r; };`) as JsonWriter;
}

/** The code of a value written. */
function writingOf({ fieldKind, scalar }: DescField, value: string, write: string): string {
  if (fieldKind === "scalar" && (scalar === ScalarType.STRING || scalar === ScalarType.BOOL)) {
    return value;
  }
  const isPlain = fieldKind === "scalar" ? plainCondition(scalar, value) : undefined;
  return isPlain === undefined ? `${write}(${value})` : `${isPlain} ? ${value} : ${write}(${value})`;
}

function setterOf(field: DescField, { inline }: FieldRule, written: string): string {
  if (inline) {
    return `assign(r, ${written})`;
  }
  const key = literal(field.jsonName);
  return field.jsonName === "__proto__" ? `setOwn(r, ${key}, ${written})` : `r[${key}] = ${written}`;
}

/** The code of a field's value in a message `m`, and of whether it is written: not where it is absent, or zero without presence. */
function readerOf(field: DescField, { always }: FieldRule): { value: string; condition: string } {
  const { oneof, localName } = field;
  if (oneof !== undefined) {
    const choice = `m[${literal(oneof.localName)}]`;
    return { value: `${choice}.value`, condition: `${choice}.case === ${literal(localName)}` };
  }
  const value = `m[${literal(localName)}]`;
  return { value, condition: always ? `${value} !== undefined` : conditionOf(field, value) };
}

function conditionOf(field: DescField, value: string): string {
  switch (field.fieldKind) {
    case "list":
      return `${value}.length !== 0`;
    case "map":
      return `!isEmpty(${value})`;
    case "message":
      return `${value} !== undefined`;
    default:
      if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) {
        // Absence is undefined; in proto2 and editions, the default that the prototype has.
        return `${value} !== undefined && Object.hasOwn(m, ${literal(field.localName)})`;
      }
      return field.fieldKind === "enum"
        ? `${value} !== ${field.enum.values[0]?.number ?? 0}`
        : isSet(field.scalar, value);
  }
}

function isSet(type: ScalarType, value: string): string {
  switch (type) {
    case ScalarType.STRING:
      return `${value} !== ""`;
    case ScalarType.BOOL:
      return value;
    case ScalarType.BYTES:
      return `${value}.length !== 0`;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return `!Object.is(${value}, 0)`;
    case ScalarType.INT64:
    case ScalarType.UINT64:
    case ScalarType.SINT64:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      // A string, with the option jstype = JS_STRING.
      return `${value} !== 0n && ${value} !== "0"`;
    default:
      return `${value} !== 0`;
  }
}

function isEmpty(map: object): boolean {
  for (const _key in map) {
    return false;
  }
  return true;
}

function writeWellKnown(desc: DescMessage, context: Context): JsonWriter {
  const { registry } = context;
  if (desc.typeName === "google.protobuf.Struct") {
    return (value) => value;
  }
  if (isWrapperDesc(desc)) {
    const write = scalarWriter(desc.fields[0]);
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

/** A path that could not be read back from lowerCamelCase stays as it is. */
function camelCase(path: string): string {
  return /^[a-z][a-z\d]*(?:[._][a-z][a-z\d]*)*$/.test(path)
    ? path.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())
    : path;
}
