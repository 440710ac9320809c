import {
  create,
  fromJson,
  ScalarType,
  type DescField,
  type DescMessage,
  type JsonValue,
  type Message,
} from "@bufbuild/protobuf";
import { isWrapperDesc, ListValueSchema, StructSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import { RequestError } from "../http/request-error.ts";
import { parseJson } from "./parse.ts";
import { expectedOf, toLocal, scalarFromText } from "./scalar.ts";
import { textForms } from "./well-known.ts";
import { isObject } from "./wide-integer.ts";
import { enumNames, fieldRule, type EnumNames } from "../schema/rules.ts";

/** How one text (a parameter, a capture of a path, a header) becomes a field's value. */
export type TextReader = {
  /** The value as the field holds it in memory; undefined: the text does not fit. */
  readonly read: (text: string) => unknown;
  /** What the text must be, for the one who sent another. */
  readonly expected: string;
  /** The text is JSON: it may stand in a query, not in a path or a header. */
  readonly isJson: boolean;
  /** As in the field's options. */
  readonly reason: string | undefined;
};

/** JSON in a parameter; a body has the limit of its option. */
const MAX_JSON_DEPTH = 100;

/**
 * Compiles the reader of a field's value; of a repeated field's item, or a map's value. undefined: no
 * text stands for one, for it is a message with fields of its own, or could be any.
 */
export function createTextReader(field: DescField): TextReader | undefined {
  const reader = compile(field);
  if (reader === undefined) {
    return undefined;
  }
  const { invalid } = fieldRule(field);
  return { isJson: false, reason: invalid === "" ? undefined : invalid, ...reader };
}

/** Says what does not fit; `name` is how the one who sent it calls the field. */
export function invalidText(reader: TextReader, name: string, options?: { repeatsInput?: boolean }): RequestError {
  return new RequestError(400, reader.reason, `${name}: must be ${reader.expected}`, options);
}

type Compiled = Pick<TextReader, "read" | "expected"> & { readonly isJson?: boolean };

function compile(field: DescField): Compiled | undefined {
  if (field.message !== undefined) {
    return compileMessage(field, field.message);
  }
  if (field.enum !== undefined) {
    return compileEnum(enumNames(field.enum), field.enum.open);
  }
  const { scalar } = field;
  const local = toLocal(field);
  return { read: (text) => local(scalarFromText(scalar, text)), expected: expectedOf[scalar] };
}

function compileEnum({ strict, numberOf, nameOf }: EnumNames, open: boolean): Compiled {
  return {
    read(text) {
      const number = numberOf.get(text);
      if (number !== undefined || strict || !/^-?\d/.test(text)) {
        return number;
      }
      const given = scalarFromText(ScalarType.INT32, text) as number | undefined;
      // An open enum takes numbers that it has no name for.
      return given !== undefined && (open || nameOf.has(given)) ? given : undefined;
    },
    expected: `one of ${[...numberOf.keys()].join(", ")}`,
  };
}

function compileMessage(field: DescField, desc: DescMessage): Compiled | undefined {
  const form = textForms.get(desc.typeName);
  if (form !== undefined) {
    return { read: form.parse, expected: form.expected };
  }
  if (isWrapperDesc(desc)) {
    const [value] = desc.fields;
    const { scalar } = value;
    const local = toLocal(value);
    // As protobuf-es has it: a singular wrapper is its bare value in memory, in all other places a message.
    const isBare = field.fieldKind === "message" && field.oneof === undefined;
    return {
      read(text) {
        const bare = local(scalarFromText(scalar, text));
        return bare === undefined || isBare ? bare : create(desc, { value: bare });
      },
      expected: expectedOf[scalar],
    };
  }
  switch (desc.typeName) {
    case StructSchema.typeName:
      return {
        isJson: true,
        read: (text) => {
          const value = jsonFromText(text);
          return isObject(value) ? value : undefined;
        },
        expected: "a JSON object",
      };
    case ListValueSchema.typeName:
      return {
        isJson: true,
        read: (text) => {
          const value = jsonFromText(text);
          return Array.isArray(value) ? messageFromJson(desc, value) : undefined;
        },
        expected: "a JSON array",
      };
    case ValueSchema.typeName:
      return {
        isJson: true,
        read: (text) => {
          const value = jsonFromText(text);
          return value === undefined ? undefined : messageFromJson(desc, value);
        },
        expected: "a JSON value",
      };
    default:
      return undefined;
  }
}

/** undefined: it is none. `exact` is that of `parseJson`. */
export function jsonFromText(text: string, exact: boolean = false): unknown {
  try {
    return parseJson(Buffer.from(text), MAX_JSON_DEPTH, [], exact);
  } catch (error) {
    if (error instanceof RequestError) {
      return undefined;
    }
    throw error;
  }
}

function messageFromJson(desc: DescMessage, value: unknown): Message {
  // The depth is known to be small; each level of JSON counts as several messages.
  return fromJson(desc, value as JsonValue, { recursionLimit: 4 * MAX_JSON_DEPTH });
}
