import { create, type DescField, type DescMessage, type Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation } from "@bufbuild/protobuf/wkt";
import { misfit, type JsonPath } from "../fault.ts";
import { FieldRuleSchema, type FieldRule } from "../../../gen/transcoding/v1/annotations_pb.ts";
import { enumSpelling, fieldRule, plainSpelling } from "../rules.ts";
import type { TakenFields } from "../taken.ts";
import { createAnyReader } from "./any.ts";
import { wideIntegersOf } from "./exact.ts";
import { Misfit, within, type Read } from "./misfit.ts";
import { createFieldReader } from "./read-field.ts";
import { createWellKnownReader } from "./read-well-known.ts";
import { expectedOf, scalarFromJson } from "./scalar.ts";
import { asMessage } from "./struct.ts";
import { isObject } from "./wide-integer.ts";
import { createZeroMaker } from "./zero.ts";

/** Reads a JSON value; `path` is where it stands, and is left as it was. Throws a Fault where it does not fit. */
export type JsonReader = (value: unknown, path: Readonly<JsonPath>) => unknown;

/** How a message's JSON is read; the same message may be read both ways. */
export type ReadOptions = {
  /** Keys that the message does not declare are skipped, not refused. */
  readonly ignoreUnknown: boolean;
  /** What a google.protobuf.Any may hold. */
  readonly registry: Registry;
  /** By the proto3 JSON mapping alone: of our options counts only what refuses values. Default: false. */
  readonly plain?: boolean;
  /** Fields that have another source may be missing, though they are required. Default: none. */
  readonly parameters?: { readonly taken: TakenFields };
};

/** Compiles readers of documents as `parseJson` gives them. */
export function createJsonReaders(options: ReadOptions): {
  message: (desc: DescMessage) => JsonReader;
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
        throw error instanceof Misfit
          ? misfit([...path, ...error.path.toReversed()], error.message, error.reason)
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

type FieldReader = {
  readonly field: DescField;
  readonly localName: string;
  readonly read: Read;
  /** Nothing but null is to be looked at before the value is read. */
  readonly isSimple: boolean;
  readonly lenient: boolean;
  readonly notNull: boolean;
  /** null is a value, and does not stand for an absent field. */
  readonly takesNull: boolean;
  /** The other of its names, under which it must not stand too. */
  readonly twin: string | undefined;
  readonly reason: string | undefined;
};

/** Once a message, so that a recursive one ends. Where documents are exact, wide integers are among the numbers in them. */
function compileReaders(options: ReadOptions, exact: boolean): Readers {
  const known = new Map<DescMessage, Read>();
  const given = new Set<DescField>();
  collectFields(options.parameters?.taken, given);
  const isPlain = options.plain === true;
  const ruleOf = isPlain ? plainRule : fieldRule;
  const spellingOf = isPlain ? plainSpelling : enumSpelling;

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

  const compileField = (desc: DescField, twin: string | undefined): FieldReader => {
    const { lenient, notNull } = ruleOf(desc);
    return {
      field: desc,
      localName: desc.localName,
      read: field(desc),
      isSimple: !lenient && twin === undefined && desc.oneof === undefined,
      lenient,
      notNull,
      takesNull: takesNull(desc),
      twin,
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
    const zero = createZeroMaker(desc);
    const required: FieldReader[] = [];
    let inline: FieldReader | undefined;
    for (const each of desc.fields) {
      const rule = ruleOf(each);
      const reader = compileField(each, undefined);
      if (rule.inline) {
        inline = reader;
      } else if (rule.header === "") {
        fields.set(each.jsonName, reader);
        if (rule.required && !given.has(each)) {
          required.push(reader);
        }
      }
    }
    // A name of the .proto may be the JSON name of another field: that one has it.
    const twins = [...fields.values()].filter(({ field: { name } }) => !fields.has(name));
    for (const { field: each } of twins) {
      fields.set(each.name, compileField(each, each.jsonName));
    }
    const names = [...fields.values()].flatMap(({ field: each, twin }) => (twin === undefined ? [each.jsonName] : []));
    const unknown = `unknown; ${names.length === 0 ? "there are no fields" : `the fields are ${names.join(", ")}`}`;
    return (value) => {
      if (!isObject(value)) {
        throw new Misfit("must be an object");
      }
      const result = zero();
      let open: Record<string, unknown> | undefined;
      for (const key in value) {
        const item = value[key];
        const reader = fields.get(key);
        if (reader === undefined || (reader.lenient && !fitsField(reader.field, item))) {
          if (inline !== undefined) {
            open ??= {};
            open[key] = item;
          } else if (reader !== undefined || !options.ignoreUnknown) {
            throw new Misfit(unknown, undefined, [key]);
          }
          continue;
        }
        try {
          if (reader.isSimple && item !== null) {
            result[reader.localName] = reader.read(item);
          } else {
            setCarefully(result, reader, item, value);
          }
        } catch (error) {
          throw within(key, error);
        }
      }
      for (const { field, reason } of required) {
        const { jsonName, name } = field;
        if (!Object.hasOwn(value, jsonName) && !(Object.hasOwn(value, name) && fields.get(name)?.field === field)) {
          throw new Misfit("is missing", reason, [jsonName]);
        }
      }
      if (inline !== undefined && open !== undefined) {
        setMember(result, inline, inline.read(open));
      }
      return result;
    };
  };

  return { message, field };
}

/** Where more is to be looked at than the value: null, both names, the other members of a oneof. */
function setCarefully(result: Record<string, unknown>, reader: FieldReader, item: unknown, value: object): void {
  const { field, reason, twin } = reader;
  if (twin !== undefined && Object.hasOwn(value, twin)) {
    throw new Misfit("stands twice, by both of its names", reason);
  }
  if (item === null && !reader.takesNull) {
    if (reader.notNull) {
      throw new Misfit(`must be ${expectedOfField(field)}, not null`, reason);
    }
    return;
  }
  const rival = field.oneof && (result[field.oneof.localName] as { case?: string }).case;
  if (rival !== undefined) {
    throw new Misfit(`${rival} is given already, and only one of them can be`, reason);
  }
  setMember(result, reader, reader.read(item));
}

function setMember(result: Record<string, unknown>, { field, localName }: FieldReader, value: unknown): void {
  if (field.oneof === undefined) {
    result[localName] = value;
  } else {
    result[field.oneof.localName] = { case: localName, value };
  }
}

/** Those of which no part is left to say. */
function collectFields(taken: TakenFields | undefined, found: Set<DescField>): void {
  if (taken === undefined || typeof taken === "string") {
    return;
  }
  for (const [field, below] of taken) {
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

function fitsField(field: DescField, value: unknown): boolean {
  return field.fieldKind === "scalar" && scalarFromJson(field.scalar, value) !== undefined;
}

function expectedOfField(field: DescField): string {
  switch (field.fieldKind) {
    case "scalar":
      return expectedOf[field.scalar];
    case "enum":
      return "a name";
    case "list":
      return "an array";
    default:
      return "an object";
  }
}
