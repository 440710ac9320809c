import { create, type DescField, type DescMessage, type Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation } from "@bufbuild/protobuf/wkt";
import { RequestError } from "../http/request-error.ts";
import { formatPath, type JsonPath } from "./path.ts";
import { setField } from "../schema/http-body.ts";
import { FieldRuleSchema, type FieldRule } from "../../gen/transcoding/v1/annotations_pb.ts";
import { enumNames, fieldRule, protoEnumNames } from "../schema/rules.ts";
import type { BoundFields } from "../schema/bound-fields.ts";
import { createAnyReader } from "./any.ts";
import { wideIntegersOf } from "./exact.ts";
import { ValueError, type Read } from "./value-error.ts";
import { createFieldReader } from "./read-field.ts";
import { assertNullable, compileMembersReader, type FieldReader } from "./read-members.ts";
import { createWellKnownReader } from "./read-well-known.ts";
import { asMessage } from "./struct.ts";
import { isObject } from "./wide-integer.ts";
import { createZeroMessageFactory } from "./zero.ts";

/** Reads a JSON value; `path` is where it stands, and is left as it was. Throws a RequestError where it does not fit. */
export type JsonReader = (value: unknown, path: JsonPath) => unknown;

/** How a message's JSON is read; the same message may be read both ways. */
export type ReadOptions = {
  /** Keys that the message does not declare are skipped, not refused. */
  readonly ignoreUnknown: boolean;
  /** What a google.protobuf.Any may hold. */
  readonly registry: Registry;
  /** By the proto3 JSON mapping alone: of our options counts only what refuses values. Default: false. */
  readonly plain?: boolean;
  /** Fields that have another source may be missing, though they are required. Default: none. */
  readonly parameters?: { readonly boundFields: BoundFields };
};

/** Compiles readers of documents as `parseJson` gives them. */
export function createJsonReaders(options: ReadOptions): {
  message: (desc: DescMessage) => JsonReader;
  /** Of a field's own value; undefined where it is null, which stands for an absent field. */
  field: (field: DescField) => JsonReader;
} {
  const usual = compileReaders(options, false);
  let exact: Readers | undefined;
  const choose = (pick: (readers: Readers) => Read): JsonReader => {
    const read = pick(usual);
    return (value, path) => {
      try {
        return wideIntegersOf(value) === undefined
          ? read(value)
          : pick((exact ??= compileReaders(options, true)))(value);
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

type Readers = {
  message: (desc: DescMessage) => Read;
  field: (field: DescField) => Read;
};

/**
 * What counts of a field's options under the mapping's own rules: what it refuses. Not `required`, for a client may
 * leave out what is empty.
 */
function plainRule(field: DescField): FieldRule {
  const { notNull, invalid } = fieldRule(field);
  return create(FieldRuleSchema, { notNull, invalid });
}

/** Once a message, so that a recursive one ends. Where documents are exact, wide integers are among the numbers in them. */
function compileReaders(options: ReadOptions, exact: boolean): Readers {
  const known = new Map<DescMessage, Read>();
  const given = new Set<DescField>();
  collectFields(options.parameters?.boundFields, given);
  const isPlain = options.plain === true;
  const ruleOf = isPlain ? plainRule : fieldRule;
  const spellingOf = isPlain ? protoEnumNames : enumNames;

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
  const field = (desc: DescField): Read => createFieldReader(desc, { message, spellingOf, reasonOf });

  const compileField = (desc: DescField, otherName: string | undefined): FieldReader => {
    const { lenient, notNull, required } = ruleOf(desc);
    return {
      field: desc,
      read: field(desc),
      lenient,
      notNull,
      required: required && !given.has(desc),
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
      const reader = compileField(each, undefined);
      if (rule.inline) {
        inline = reader;
      } else if (rule.header === "") {
        fields.set(each.jsonName, reader);
      }
    }
    // A name of the .proto may be the JSON name of another field: that one has it.
    const twins = [...fields.values()].filter(({ field: { name } }) => !fields.has(name));
    for (const { field: each } of twins) {
      fields.set(each.name, compileField(each, each.jsonName));
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
      const open = readMembers(result, value);
      if (inline !== undefined && open !== undefined) {
        setField(result, inline.field, inline.read(open));
      }
      return result;
    };
  };

  return {
    message,
    field(desc) {
      const reader = compileField(desc, undefined);
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

/** Those of which no part is left to say. */
function collectFields(boundFields: BoundFields | undefined, found: Set<DescField>): void {
  if (boundFields === undefined || typeof boundFields === "string") {
    return;
  }
  for (const [field, below] of boundFields) {
    found.add(field);
    collectFields(below, found);
  }
}

/** In most fields null stands for an absent one; in these it is a value. */
function takesNull(field: DescField): boolean {
  return (
    (field.fieldKind === "message" && field.message.typeName === "google.protobuf.Value") ||
    (field.fieldKind === "enum" && field.enum.typeName === "google.protobuf.NullValue")
  );
}

/** A value that does not fit its field; the message begins with where it stands. */
function invalidValue(path: JsonPath, expected: string, reason?: string): RequestError {
  return new RequestError(400, reason, `${path.length === 0 ? "the body" : formatPath(path)}: ${expected}`);
}
