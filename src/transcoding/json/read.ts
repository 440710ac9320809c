import { create, fromJson, type DescField, type DescMessage, type JsonValue, type Message } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { misfit, type JsonPath } from "../fault.ts";
import { FieldRuleSchema, type FieldRule } from "../../../gen/transcoding/v1/annotations_pb.ts";
import { enumSpelling, fieldRule, plainSpelling, type EnumSpelling } from "../rules.ts";
import { expectedOf, scalarFromJson } from "./scalar.ts";

/** Reads a JSON value; `path` is where it stands, and is left as it was. Throws a Fault where it does not fit. */
export type JsonReader = (value: unknown, path: JsonPath) => unknown;

/** How a message's JSON is read; the same message may be read both ways. */
export type ReadOptions = {
  /** Keys that the message does not declare are skipped, not refused. */
  readonly ignoreUnknown: boolean;
  /** By the proto3 JSON mapping alone: no option of ours counts. Default: false. */
  readonly plain?: boolean;
};

const plainRule: FieldRule = create(FieldRuleSchema);

type FieldReader = {
  readonly field: DescField;
  /** Puts the value into the message. */
  readonly set: (message: Record<string, unknown>, value: unknown) => void;
  readonly read: JsonReader;
  /** Whether a value is of the JSON type that the field takes. */
  readonly fits: (value: unknown) => boolean;
  readonly lenient: boolean;
  readonly notNull: boolean;
  readonly reason: string | undefined;
};

/** Compiles readers once a message, so that a recursive one ends. */
export function createJsonReaders(options: ReadOptions): {
  message: (desc: DescMessage) => JsonReader;
  field: (field: DescField) => JsonReader;
} {
  const known = new Map<DescMessage, JsonReader>();
  const isPlain = options.plain === true;
  const ruleOf = isPlain ? () => plainRule : fieldRule;
  const spellingOf = isPlain ? plainSpelling : enumSpelling;

  const message = (desc: DescMessage): JsonReader => {
    const reader = known.get(desc);
    if (reader !== undefined) {
      return reader;
    }
    let compiled: JsonReader | undefined;
    const lazy: JsonReader = (value, path) => (compiled ??= compileMessage(desc))(value, path);
    known.set(desc, lazy);
    return lazy;
  };

  const compileMessage = (desc: DescMessage): JsonReader => {
    if (desc.typeName.startsWith("google.protobuf.")) {
      return readWellKnown(desc);
    }
    const fields = new Map<string, FieldReader>();
    const required: FieldReader[] = [];
    let inline: FieldReader | undefined;
    for (const each of desc.fields) {
      const rule = ruleOf(each);
      const reader: FieldReader = {
        field: each,
        set: setterOf(each),
        read: field(each),
        fits: (value) => fitsField(each, value),
        lenient: rule.lenient,
        notNull: rule.notNull,
        reason: rule.invalid === "" ? undefined : rule.invalid,
      };
      if (rule.inline) {
        inline = reader;
      } else if (rule.header === "") {
        fields.set(each.jsonName, reader).set(each.name, reader);
        if (rule.required) {
          required.push(reader);
        }
      }
    }
    return (value, path) => {
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw misfit(path, "must be an object");
      }
      const result = create(desc) as Message & Record<string, unknown>;
      let open: Record<string, unknown> | undefined;
      let seen: Set<string> | undefined;
      for (const key of Object.keys(value)) {
        const item = (value as Record<string, unknown>)[key];
        const reader = fields.get(key);
        if (reader === undefined || (reader.lenient && !reader.fits(item))) {
          if (inline !== undefined) {
            open ??= {};
            open[key] = item;
          } else if (reader !== undefined || !options.ignoreUnknown) {
            path.push(key);
            throw misfit(path, `unknown; the fields are ${desc.fields.map((each) => each.jsonName).join(", ")}`);
          }
          continue;
        }
        path.push(key);
        if (key !== reader.field.jsonName || reader.field.jsonName !== reader.field.name) {
          seen ??= new Set();
          if (seen.size === seen.add(reader.field.name).size) {
            throw misfit(path, "stands twice, by both of its names", reader.reason);
          }
        }
        if (item !== null || takesNull(reader.field)) {
          const rival = reader.field.oneof && (result[reader.field.oneof.localName] as { case?: string }).case;
          if (rival !== undefined) {
            throw misfit(path, `${rival} is given already, and only one of them can be`, reader.reason);
          }
          reader.set(result, reader.read(item, path));
        } else if (reader.notNull) {
          throw misfit(path, `must be ${expectedOfField(reader.field)}, not null`, reader.reason);
        }
        path.pop();
      }
      for (const reader of required) {
        if (!Object.hasOwn(value, reader.field.jsonName) && !Object.hasOwn(value, reader.field.name)) {
          path.push(reader.field.jsonName);
          throw misfit(path, "is missing", reader.reason);
        }
      }
      if (inline !== undefined && open !== undefined) {
        inline.set(result, inline.read(open, path));
      }
      return result;
    };
  };

  const field = (desc: DescField): JsonReader => {
    const rule = ruleOf(desc);
    const reason = rule.invalid === "" ? undefined : rule.invalid;
    switch (desc.fieldKind) {
      case "scalar":
        return (value, path) => {
          const scalar = scalarFromJson(desc.scalar, value);
          if (scalar === undefined) {
            throw misfit(path, `must be ${expectedOf[desc.scalar]}`, reason);
          }
          return scalar;
        };
      case "enum":
        return readEnum(spellingOf(desc.enum), desc.enum.open, reason);
      case "message":
        return message(desc.message);
      case "list": {
        const item = itemReader(desc, reason);
        return (value, path) => {
          if (!Array.isArray(value)) {
            throw misfit(path, "must be an array", reason);
          }
          return value.map((each: unknown, index) => {
            path.push(index);
            const result = item(each, path);
            path.pop();
            return result;
          });
        };
      }
      case "map": {
        const item = itemReader(desc, reason);
        return (value, path) => {
          if (typeof value !== "object" || value === null || Array.isArray(value)) {
            throw misfit(path, "must be an object", reason);
          }
          const result: Record<string, unknown> = {};
          for (const [key, each] of Object.entries(value)) {
            path.push(key);
            result[key] = item(each, path);
            path.pop();
          }
          return result;
        };
      }
    }
  };

  const itemReader = (desc: DescField & { fieldKind: "list" | "map" }, reason: string | undefined): JsonReader => {
    const kind = desc.fieldKind === "list" ? desc.listKind : desc.mapKind;
    if (kind === "message" && desc.message !== undefined) {
      return message(desc.message);
    }
    if (kind === "enum" && desc.enum !== undefined) {
      return readEnum(spellingOf(desc.enum), desc.enum.open, reason);
    }
    const { scalar } = desc;
    if (scalar === undefined) {
      throw new Error(`${desc.toString()}: neither a message, an enum nor a scalar`);
    }
    return (value, path) => {
      const result = scalarFromJson(scalar, value);
      if (result === undefined) {
        throw misfit(path, `must be ${expectedOf[scalar]}`, reason);
      }
      return result;
    };
  };

  return { message, field };
}

function readEnum({ strict, numberOf, nameOf }: EnumSpelling, open: boolean, reason: string | undefined): JsonReader {
  const expected = `one of ${[...numberOf.keys()].join(", ")}`;
  return (value, path) => {
    const number = typeof value === "string" ? numberOf.get(value) : value;
    // An open enum takes numbers that it has no name for.
    if (
      typeof number === "number" &&
      (!strict || typeof value === "string") &&
      Number.isInteger(number) &&
      Math.abs(number) <= 0x7fff_ffff &&
      (open || nameOf.has(number))
    ) {
      return number;
    }
    throw misfit(path, `must be ${expected}`, reason);
  };
}

/** Struct, Value and ListValue are plain JSON in memory too; the others have their own JSON forms. */
function readWellKnown(desc: DescMessage): JsonReader {
  if (desc.typeName === "google.protobuf.Struct") {
    return (value, path) => {
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw misfit(path, "must be an object");
      }
      return value;
    };
  }
  return (value, path) => {
    try {
      const result = fromJson(desc, value as JsonValue) as Message & { value?: unknown };
      return isWrapperDesc(desc) ? result.value : result;
    } catch {
      throw misfit(path, `must be the JSON form of ${desc.typeName}`);
    }
  };
}

/** In most fields null stands for an absent one; in a Value it is a value. */
function takesNull(field: DescField): boolean {
  return field.fieldKind === "message" && field.message.typeName === "google.protobuf.Value";
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

function setterOf(field: DescField): FieldReader["set"] {
  const { oneof, localName } = field;
  return oneof === undefined
    ? (message, value) => {
        message[localName] = value;
      }
    : (message, value) => {
        message[oneof.localName] = { case: localName, value };
      };
}
