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
import { encodeUtf8 } from "#platform/bytes";
import { RequestError } from "../http/request-error.ts";
import { parseJson } from "./parse.ts";
import { expectedOf, toLocal, scalarFromText } from "./scalar.ts";
import { textForms } from "./well-known.ts";
import { isObject } from "./wide-integer.ts";
import { enumNames, fieldRule, type EnumNames } from "../schema/rules.ts";

/** How a text (a parameter, a path variable, a header) is read as a field's value. */
export type TextReader = {
  /** Returns the value as the field has it in memory; undefined if the text is invalid. */
  readonly read: (text: string) => unknown;
  /** What the text must be, for error messages. */
  readonly expected: string;
  /** The text is JSON, which is allowed in a query, but not in a path or a header. */
  readonly isJson: boolean;
  /** The reason in the error for an invalid text, by the field's options. */
  readonly reason: string | undefined;
};

/** For JSON in a parameter. The depth of a body is limited by an option. */
const MAX_JSON_DEPTH = 100;

/**
 * Creates the reader of a field's value, or of an item of a repeated field or a map. Returns undefined if values have no
 * form as text: for messages other than well-known types, and for Any.
 */
export function createTextReader(field: DescField): TextReader | undefined {
  const reader = readerOf(field);
  if (reader === undefined) {
    return undefined;
  }
  const { invalid } = fieldRule(field);
  return { isJson: false, reason: invalid === "" ? undefined : invalid, ...reader };
}

/** The error for an invalid text. `name` is the name of the parameter. */
export function invalidText(reader: TextReader, name: string, options?: { repeatsInput?: boolean }): RequestError {
  return new RequestError(400, reader.reason, `${name}: must be ${reader.expected}`, options);
}

type Reader = Pick<TextReader, "read" | "expected"> & { readonly isJson?: boolean };

function readerOf(field: DescField): Reader | undefined {
  if (field.message !== undefined) {
    return messageReaderOf(field, field.message);
  }
  if (field.enum !== undefined) {
    return enumReaderOf(enumNames(field.enum), field.enum.open);
  }
  const { scalar } = field;
  const local = toLocal(field);
  return { read: (text) => local(scalarFromText(scalar, text)), expected: expectedOf[scalar] };
}

function enumReaderOf({ strict, numberOf, nameOf }: EnumNames, open: boolean): Reader {
  return {
    read(text) {
      const number = numberOf.get(text);
      if (number !== undefined || strict || !/^-?\d/.test(text)) {
        return number;
      }
      const given = scalarFromText(ScalarType.INT32, text) as number | undefined;
      // An open enum accepts numbers without a name.
      return given !== undefined && (open || nameOf.has(given)) ? given : undefined;
    },
    expected: `one of ${[...numberOf.keys()].join(", ")}`,
  };
}

function messageReaderOf(field: DescField, desc: DescMessage): Reader | undefined {
  const form = textForms.get(desc.typeName);
  if (form !== undefined) {
    return { read: form.parse, expected: form.expected };
  }
  if (isWrapperDesc(desc)) {
    const [value] = desc.fields;
    const { scalar } = value;
    const local = toLocal(value);
    // protobuf-es represents a singular wrapper by its value, and in all other places as a message.
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

/** Parses JSON, `exact` as in `parseJson`. Returns undefined if the text is not valid JSON. */
export function jsonFromText(text: string, exact: boolean = false): unknown {
  try {
    return parseJson(encodeUtf8(text), MAX_JSON_DEPTH, [], exact);
  } catch (error) {
    if (error instanceof RequestError) {
      return undefined;
    }
    throw error;
  }
}

function messageFromJson(desc: DescMessage, value: unknown): Message {
  // protobuf-es counts several messages for each level of JSON.
  return fromJson(desc, value as JsonValue, { recursionLimit: 4 * MAX_JSON_DEPTH });
}
