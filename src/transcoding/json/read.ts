import {
  create,
  fromJson,
  ScalarType,
  type DescEnum,
  type DescField,
  type DescMessage,
  type JsonValue,
} from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { misfit, type JsonPath } from "../fault.ts";
import { FieldRuleSchema, type FieldRule } from "../../../gen/transcoding/v1/annotations_pb.ts";
import { enumSpelling, fieldRule, plainSpelling, type EnumSpelling } from "../rules.ts";
import type { TakenFields } from "../taken.ts";
import { isExact } from "./parse.ts";
import { expectedOf, scalarFromJson, scalarFromText, toLocal } from "./scalar.ts";
import { textForms } from "./well-known.ts";
import { createZeroMaker } from "./zero.ts";

/** Reads a JSON value; `path` is where it stands, and is left as it was. Throws a Fault where it does not fit. */
export type JsonReader = (value: unknown, path: Readonly<JsonPath>) => unknown;

/** How a message's JSON is read; the same message may be read both ways. */
export type ReadOptions = {
  /** Keys that the message does not declare are skipped, not refused. */
  readonly ignoreUnknown: boolean;
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
        return isExact(value) ? pick((exact ??= compileReaders(options, true)))(value) : read(value);
      } catch (error) {
        throw error instanceof Misfit
          ? misfit([...path, ...error.path.toReversed()], error.message, error.reason)
          : error;
      }
    };
  };
  return {
    message: (desc) => choose((readers) => readers.message(desc)),
    field: (field) => choose((readers) => readers.field(field)),
  };
}

/** Throws a Misfit where the value does not fit. */
type Read = (value: unknown) => unknown;

type Readers = {
  message: (desc: DescMessage) => Read;
  field: (field: DescField) => Read;
};

/** A fault on its way up: where a value stands is found out only when it does not fit. */
class Misfit extends Error {
  readonly reason: string | undefined;
  /** Innermost first. */
  readonly path: JsonPath;

  constructor(expected: string, reason?: string, path: JsonPath = []) {
    super(expected);
    this.reason = reason;
    this.path = path;
  }
}

function within(key: string | number, error: unknown): unknown {
  if (error instanceof Misfit) {
    error.path.push(key);
  }
  return error;
}

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

/** Once a message, so that a recursive one ends. Where documents are exact, bigints stand for some numbers in them. */
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

  const compileField = (desc: DescField, twin: string | undefined): FieldReader => {
    const { lenient, notNull, invalid } = ruleOf(desc);
    return {
      field: desc,
      localName: desc.localName,
      read: field(desc),
      isSimple: !lenient && twin === undefined && desc.oneof === undefined,
      lenient,
      notNull,
      takesNull: takesNull(desc),
      twin,
      reason: invalid === "" ? undefined : invalid,
    };
  };

  const compileMessage = (desc: DescMessage): Read => {
    if (desc.typeName.startsWith("google.protobuf.")) {
      return readWellKnown(desc, exact);
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
        if (each.name !== each.jsonName) {
          fields.set(each.name, compileField(each, each.jsonName));
        }
        if (rule.required && !given.has(each)) {
          required.push(reader);
        }
      }
    }
    return (value) => {
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw new Misfit("must be an object");
      }
      const result = zero();
      let open: Record<string, unknown> | undefined;
      for (const key in value) {
        const item = (value as Record<string, unknown>)[key];
        const reader = fields.get(key);
        if (reader === undefined || (reader.lenient && !fitsField(reader.field, item))) {
          if (inline !== undefined) {
            open ??= {};
            open[key] = item;
          } else if (reader !== undefined || !options.ignoreUnknown) {
            throw new Misfit(
              `unknown; the fields are ${[...new Set(Array.from(fields.values(), (each) => each.field.jsonName))].join(", ")}`,
              undefined,
              [key],
            );
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
        if (!Object.hasOwn(value, field.jsonName) && !Object.hasOwn(value, field.name)) {
          throw new Misfit("is missing", reason, [field.jsonName]);
        }
      }
      if (inline !== undefined && open !== undefined) {
        setMember(result, inline, inline.read(open));
      }
      return result;
    };
  };

  const field = (desc: DescField): Read => {
    const { invalid } = ruleOf(desc);
    const reason = invalid === "" ? undefined : invalid;
    switch (desc.fieldKind) {
      case "scalar":
      case "enum":
        return itemReader(desc, reason);
      case "message": {
        const read = message(desc.message);
        if (desc.oneof !== undefined || !isWrapperDesc(desc.message)) {
          return read;
        }
        // As protobuf-es has it: a singular wrapper is its bare value in memory.
        return (value) => (read(value) as { value: unknown }).value;
      }
      case "list": {
        const item = itemReader(desc, reason);
        return (value) => {
          if (!Array.isArray(value)) {
            throw new Misfit("must be an array", reason);
          }
          const items = value as unknown[];
          const result: unknown[] = [];
          let i = 0;
          try {
            for (; i < items.length; i++) {
              result.push(item(items[i]));
            }
          } catch (error) {
            throw within(i, error);
          }
          return result;
        };
      }
      case "map": {
        const item = itemReader(desc, reason);
        const { mapKey } = desc;
        return (value) => {
          if (typeof value !== "object" || value === null || Array.isArray(value)) {
            throw new Misfit("must be an object", reason);
          }
          const result: Record<string, unknown> = {};
          for (const name in value) {
            const key = mapKey === ScalarType.STRING ? name : readKey(mapKey, name, result, reason);
            try {
              result[key] = item((value as Record<string, unknown>)[name]);
            } catch (error) {
              throw within(name, error);
            }
          }
          return result;
        };
      }
    }
  };

  const itemReader = (desc: DescField, reason: string | undefined): Read => {
    if (desc.message !== undefined) {
      return message(desc.message);
    }
    if (desc.enum !== undefined) {
      return readEnum(desc.enum, spellingOf(desc.enum), reason);
    }
    const { scalar } = desc;
    if (scalar === ScalarType.STRING) {
      return (value) => {
        if (typeof value !== "string") {
          throw new Misfit("must be a string", reason);
        }
        return value;
      };
    }
    const local = toLocal(desc);
    return (value) => {
      const result = local(scalarFromJson(scalar, value));
      if (result === undefined) {
        throw new Misfit(`must be ${expectedOf[scalar]}`, reason);
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

function readKey(
  mapKey: Exclude<ScalarType, ScalarType.FLOAT | ScalarType.DOUBLE | ScalarType.BYTES>,
  name: string,
  before: object,
  reason: string | undefined,
): string {
  const key = scalarFromText(mapKey, name);
  if (key === undefined) {
    throw new Misfit(`the key must be ${expectedOf[mapKey]}`, reason, [name]);
  }
  if (Object.hasOwn(before, String(key))) {
    throw new Misfit("this key stands twice in its object", reason, [name]);
  }
  return String(key);
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

function readEnum(
  { open, typeName }: DescEnum,
  { strict, numberOf, nameOf }: EnumSpelling,
  reason: string | undefined,
): Read {
  if (typeName === "google.protobuf.NullValue") {
    return (value) => {
      if (value !== null && value !== "NULL_VALUE" && value !== 0) {
        throw new Misfit("must be null", reason);
      }
      return 0;
    };
  }
  const expected = `one of ${[...numberOf.keys()].join(", ")}`;
  return (value) => {
    const number = typeof value === "string" ? numberOf.get(value) : value;
    // An open enum takes numbers that it has no name for.
    if (
      typeof number === "number" &&
      (!strict || typeof value === "string") &&
      number === (number | 0) &&
      (open || nameOf.has(number))
    ) {
      // Not -0.
      return number | 0;
    }
    throw new Misfit(`must be ${expected}`, reason);
  };
}

/** Below a document's own limit of depth; each level of JSON counts as several messages. */
const NO_RECURSION_LIMIT = 1_000_000;

/** A Struct is plain JSON in memory too; the others are messages, each with its own JSON form. */
function readWellKnown(desc: DescMessage, exact: boolean): Read {
  const form = textForms.get(desc.typeName);
  if (form !== undefined) {
    return (value) => {
      const result = typeof value === "string" ? form.parse(value) : undefined;
      if (result === undefined) {
        throw new Misfit(`must be ${form.expected}`);
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
        throw new Misfit(`must be ${expectedOf[field.scalar]}`);
      }
      return create(desc, { value: bare });
    };
  }
  const plain = exact ? withDoubles : (value: unknown) => value;
  if (desc.typeName === "google.protobuf.Struct") {
    return (value) => {
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw new Misfit("must be an object");
      }
      return plain(value);
    };
  }
  const expected = desc.typeName === "google.protobuf.ListValue" ? "an array" : `the JSON form of ${desc.typeName}`;
  return (value) => {
    try {
      return fromJson(desc, plain(value) as JsonValue, { recursionLimit: NO_RECURSION_LIMIT });
    } catch {
      throw new Misfit(`must be ${expected}`);
    }
  };
}

/** A JSON value as JSON.parse gives it: numbers in it are doubles. */
function withDoubles(value: unknown): unknown {
  if (typeof value === "bigint") {
    return Number(value);
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  return Array.isArray(value)
    ? value.map(withDoubles)
    : Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withDoubles(item)]));
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
