import { isFieldSet, ScalarType, type DescField, type Message } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence } from "@bufbuild/protobuf/wkt";
import { getField } from "../schema/field-value.ts";
import { compile, literal } from "./compile.ts";
import { setOwn } from "./object.ts";
import { plainCondition } from "./scalar.ts";

export type FieldWriter = {
  readonly field: DescField;
  readonly key: string;
  readonly write: (value: unknown) => unknown;
  /** It is written even if it has its zero value. */
  readonly always: boolean;
  /** It is written as null if it is not set. */
  readonly orNull: boolean;
  /** True to add its keys to the message's own. */
  readonly inline: boolean;
  /** As in the field's options. */
  readonly lenient: boolean;
};

/** The result of a map's writer for an empty map. Checking for emptiness beforehand would be as slow as enumerating all keys. */
export const emptyMap: Record<string, unknown> = {};

type JsonObject = Record<string, unknown>;

/** Returns a new object with a member for each field that is written. */
export type MembersWriter = (message: Message & Record<string, unknown>) => JsonObject;

/**
 * Compiles a function with a statement for each field, such as `if (m.text !== "") object["text"] = m.text;`. Inline fields
 * must be last.
 */
export function compileMembersWriter(writers: readonly FieldWriter[]): MembersWriter {
  const assign = compileAssign(writers);
  const scope: Record<string, unknown> = { assign, emptyMap, setOwn };
  const statements = writers.map((writer, at) => {
    scope[`write${at}`] = writer.write;
    const { value, condition } = fieldCode(writer);
    if (writer.field.fieldKind === "map") {
      return `{ const map = write${at}(${value}); if (${condition}) ${settingCode(writer, "map")}; }`;
    }
    return `if (${condition}) ${settingCode(writer, writingCode(writer.field, value, `write${at}`))};`;
  });
  return compile(scope, `return (m) => { const object = {}; ${statements.join("\n")} return object; };`, (message) => {
    const object: JsonObject = {};
    for (const { field, key, write, always, orNull, inline } of writers) {
      const value = getField(message, field);
      if (!orNull && (always ? value === undefined : !isFieldSet(message, field))) {
        continue;
      }
      if (inline) {
        assign(object, write(value) as object);
      } else {
        setOwn(object, key, write(value));
      }
    }
    return object;
  });
}

/**
 * Compiles the function that adds the keys of an inline field, except names of other fields: a reader would take such a
 * member for that field. A value that does not fit a lenient field is kept under that field's name, and may be added.
 */
function compileAssign(writers: readonly FieldWriter[]): (target: JsonObject, source: object) => void {
  const namesOf = (some: readonly FieldWriter[]): string[] => some.flatMap(({ field }) => [field.name, field.jsonName]);
  const declared = writers.filter(({ inline }) => !inline);
  const excluded = new Set(namesOf(declared.filter(({ lenient }) => !lenient)));
  const assignSome = (target: JsonObject, source: object): void => {
    for (const [key, value] of Object.entries(source)) {
      if (!excluded.has(key) && !Object.hasOwn(target, key)) {
        setOwn(target, key, value);
      }
    }
  };
  // `in` also finds inherited names, which only costs time here. It is several times as fast as Object.hasOwn.
  const names = [...new Set(namesOf(declared))].map((name) => `${literal(name)} in source`);
  const isSpecial = [...names, `Object.hasOwn(source, "__proto__")`].join(" || ");
  return compile(
    { assignSome },
    `return (target, source) => { if (${isSpecial}) assignSome(target, source); else Object.assign(target, source); };`,
    assignSome,
  );
}

/** The code that writes a value. */
function writingCode({ fieldKind, scalar }: DescField, value: string, write: string): string {
  const isPlain = fieldKind === "scalar" ? plainCondition(scalar, value) : undefined;
  return isPlain === undefined ? `${write}(${value})` : `${isPlain} ? ${value} : ${write}(${value})`;
}

function settingCode({ key, inline }: FieldWriter, written: string): string {
  if (inline) {
    return `assign(object, ${written})`;
  }
  return key === "__proto__" ? `setOwn(object, ${literal(key)}, ${written})` : `object[${literal(key)}] = ${written}`;
}

/** The code of a field's value in a message `m`, and of the condition under which it is written. */
function fieldCode({ field, always, orNull }: FieldWriter): { value: string; condition: string } {
  const { oneof, localName } = field;
  if (oneof !== undefined) {
    const choice = `m[${literal(oneof.localName)}]`;
    return { value: `${choice}.value`, condition: `${choice}.case === ${literal(localName)}` };
  }
  const value = `m[${literal(localName)}]`;
  return { value, condition: orNull ? "true" : always ? `${value} !== undefined` : isSetCode(field, value) };
}

/** `isFieldSet` of protobuf-es as code, for a field that is in no oneof. */
function isSetCode(field: DescField, value: string): string {
  switch (field.fieldKind) {
    case "list":
      return `${value}.length !== 0`;
    case "map":
      return "map !== emptyMap";
    case "message":
      return `${value} !== undefined`;
    default:
      if (field.presence !== FeatureSet_FieldPresence.IMPLICIT) {
        // An absent field is undefined, or in proto2 and editions a default in the prototype.
        return `${value} !== undefined && Object.hasOwn(m, ${literal(field.localName)})`;
      }
      return field.fieldKind === "enum"
        ? `${value} !== ${field.enum.values[0]?.number ?? 0}`
        : isNotZeroCode(field.scalar, value);
  }
}

function isNotZeroCode(type: ScalarType, value: string): string {
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
