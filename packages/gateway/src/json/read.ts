import { create, type DescField, type DescMessage, fromJson, type JsonValue, type Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation, isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { RequestError } from "../http/request-error.ts";
import { formatPath, type JsonPath } from "./path.ts";
import { setField } from "../schema/field-value.ts";
import { type FieldRule, FieldRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { anyEnumNames, enumNames, fieldRule, protoEnumNames } from "../schema/rules.ts";
import type { BoundFields } from "../schema/bound-fields.ts";
import { createAnyReader } from "./any.ts";
import { wideIntegersOf } from "./exact.ts";
import { type Read, ValueError } from "./value-error.ts";
import { createFieldReader, type FieldContext } from "./read-field.ts";
import { assertNullable, compileMembersReader, type FieldReader } from "./read-members.ts";
import { asMessage } from "./struct.ts";
import { isObject } from "./object.ts";
import { assertExact, WideInteger } from "./wide-integer.ts";
import { createZeroMessageFactory } from "./zero.ts";
import { expectedOf, scalarFromJson, toLocal } from "./scalar.ts";
import { textForms } from "./well-known.ts";

/** Reads the JSON value at a path. Throws a RequestError if it is invalid. */
export type JsonReader = (value: unknown, path: JsonPath) => unknown;

export type ReadOptions = {
  /** Keys that the message does not declare are skipped instead of rejected. */
  readonly ignoreUnknown: boolean;
  /** Names of enum values are accepted in any case. Defaults to false. */
  readonly ignoreEnumCase?: boolean;
  /** The messages that a google.protobuf.Any can contain. */
  readonly registry: Registry;
  /** Reads the proto3 JSON mapping; of the field options, only `not_null`, `invalid` and `exact_integers` apply. Defaults to false. */
  readonly plain?: boolean;
  /**
   * Reads a server's output: the options that reject values of requests do not apply, and an enum is accepted in any
   * spelling. An unknown name, which a newer server may write, is read as the first value. Defaults to false.
   */
  readonly isResponse?: boolean;
  /** Required fields that are bound to parameters may be missing in the JSON. Defaults to none. */
  readonly parameters?: { readonly boundFields: BoundFields };
};

/** Creates readers of documents that `parseJson` returned. */
export function createJsonReaders(options: ReadOptions): {
  message: (desc: DescMessage) => JsonReader;
  /** Reads the value of a field. Returns undefined for null where it stands for an absent field. */
  field: (field: DescField) => JsonReader;
} {
  const usual = buildReaders(options, false);
  let exact: Readers | undefined;
  const choose = (pick: (readers: Readers) => Read): JsonReader => {
    const read = pick(usual);
    return (value, path) => {
      try {
        return wideIntegersOf(value) === undefined ? read(value) : pick((exact ??= buildReaders(options, true)))(value);
      } catch (error) {
        throw error instanceof ValueError
          ? invalidValue([...path, ...error.path.toReversed()], error.message, error.reason)
          : error;
      }
    };
  };
  return {
    message(desc) {
      const read = choose((readers) => readers.message(desc));
      return (value, path) => asMessage(desc, read(value, path));
    },
    field: (field) => choose((readers) => readers.field(field)),
  };
}

type Readers = { message: (desc: DescMessage) => Read; field: (field: DescField) => Read };

/**
 * The options of a field that also apply under the proto3 JSON mapping. `required` does not, because clients may omit
 * fields with zero values.
 */
function plainRule(field: DescField): FieldRule {
  const { notNull, invalid, exactIntegers } = fieldRule(field);
  return create(FieldRuleSchema, { notNull, invalid, exactIntegers });
}

function responseRule(field: DescField): FieldRule {
  const { header, inline, lenient } = fieldRule(field);
  return create(FieldRuleSchema, { header, inline, lenient });
}

/** The rules of fields and the spelling of enums that apply. */
function dialectOf({
  plain = false,
  isResponse = false,
}: ReadOptions): Pick<FieldContext, "spellingOf"> & { ruleOf: (field: DescField) => FieldRule } {
  if (isResponse) {
    return { ruleOf: responseRule, spellingOf: anyEnumNames };
  }
  return plain ? { ruleOf: plainRule, spellingOf: protoEnumNames } : { ruleOf: fieldRule, spellingOf: enumNames };
}

/**
 * Creates readers, each of them once and when it is first used, because messages may be recursive. With `exact`, documents may
 * contain wide integers.
 */
function buildReaders(options: ReadOptions, exact: boolean): Readers {
  const known = new Map<DescMessage, Read>();
  const bound = new Set<DescField>();
  collectFields(options.parameters?.boundFields, bound);
  const { ruleOf, spellingOf } = dialectOf(options);
  const { ignoreEnumCase = false } = options;

  const message = (desc: DescMessage): Read => {
    const reader = known.get(desc);
    if (reader !== undefined) {
      return reader;
    }
    let compiled: Read | undefined;
    const lazy: Read = (value) => (compiled ??= compileMessage(desc))(value);
    known.set(desc, lazy);
    return lazy;
  };

  const reasonOf = (desc: DescField): string | undefined => ruleOf(desc).invalid || undefined;
  const field = (desc: DescField): Read => createFieldReader(desc, { message, spellingOf, ignoreEnumCase, reasonOf });

  const fieldReader = (desc: DescField, otherName: string | undefined): FieldReader => {
    const { lenient, notNull, required, exactIntegers } = ruleOf(desc);
    const read = field(desc);
    return {
      field: desc,
      read: exact && exactIntegers ? withExactIntegers(read) : read,
      lenient,
      notNull,
      required: required && !bound.has(desc),
      takesNull: takesNull(desc),
      otherName,
      reason: reasonOf(desc),
    };
  };

  const compileMessage = (desc: DescMessage): Read => {
    if (desc.typeName === "google.protobuf.Any") {
      return createAnyReader(options, message);
    }
    if (hasCustomJsonRepresentation(desc)) {
      return createWellKnownReader(desc, exact);
    }
    const fields = new Map<string, FieldReader>();
    const zero = createZeroMessageFactory(desc);
    let inline: FieldReader | undefined;
    for (const each of desc.fields) {
      const rule = ruleOf(each);
      const reader = fieldReader(each, undefined);
      if (rule.inline) {
        inline = reader;
      } else if (rule.header === "") {
        fields.set(each.jsonName, reader);
      }
    }
    // A field may also be given by its name in the .proto, unless that is the JSON name of another field.
    const withOtherName = [...fields.values()].filter(({ field: { name } }) => !fields.has(name));
    for (const { field: each } of withOtherName) {
      fields.set(each.name, fieldReader(each, each.jsonName));
    }
    const readMembers = compileMembersReader(
      fields,
      inline !== undefined ? "keep" : options.ignoreUnknown ? "skip" : "reject",
    );
    return (value) => {
      if (!isObject(value)) {
        throw new ValueError("must be an object");
      }
      const result = zero();
      const rest = readMembers(result, value);
      if (inline !== undefined && rest !== undefined) {
        setField(result, inline.field, inline.read(rest));
      }
      return result;
    };
  };

  return {
    message,
    field(desc) {
      const reader = fieldReader(desc, undefined);
      return (value) => {
        if (value === null && !reader.takesNull) {
          assertNullable(reader);
          return undefined;
        }
        return reader.read(value);
      };
    },
  };
}

function withExactIntegers(read: Read): Read {
  return (value) => {
    assertExact(value);
    return read(value);
  };
}

/** Adds the bound fields, including partly bound ones. */
function collectFields(boundFields: BoundFields | undefined, found: Set<DescField>): void {
  if (boundFields === undefined || typeof boundFields === "string") {
    return;
  }
  for (const [field, below] of boundFields) {
    found.add(field);
    collectFields(below, found);
  }
}

/** True if null is a value of a field. For most fields it stands for an absent field. */
function takesNull(field: DescField): boolean {
  return (
    (field.fieldKind === "message" && field.message.typeName === "google.protobuf.Value") ||
    (field.fieldKind === "enum" && field.enum.typeName === "google.protobuf.NullValue")
  );
}

/** The error for an invalid value. Its message begins with the path. */
function invalidValue(path: JsonPath, expected: string, reason?: string): RequestError {
  return new RequestError(400, reason, `${path.length === 0 ? "the body" : formatPath(path)}: ${expected}`);
}

/** The document's depth is limited already; protobuf-es counts several messages for each level of JSON. */
const NO_RECURSION_LIMIT = 1_000_000;

/**
 * Creates the reader of a google.protobuf message with a JSON form of its own, except Any. It returns a Struct as a plain
 * object, and all others as messages. With `exact`, documents may contain wide integers.
 */
function createWellKnownReader(desc: DescMessage, exact: boolean): Read {
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
