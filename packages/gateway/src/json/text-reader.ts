import { fromJson, type DescField, type DescMessage, type JsonValue, type Message } from "@bufbuild/protobuf";
import { ListValueSchema, StructSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import { encodeUtf8 } from "#platform/bytes";
import { RequestError } from "../http/request-error.ts";
import { parseJson } from "./parse.ts";
import { withOptions, plainTextReading, type TextReading, type TextReader } from "./plain-text-reading.ts";
import { isObject } from "./object.ts";

/** For JSON in a parameter. The depth of a body is limited by an option. */
const MAX_JSON_DEPTH = 100;

/**
 * Creates the reader of a field's value, or of an item of a repeated field or a map. Returns undefined if values have no
 * form as text: for messages other than well-known types, and for Any.
 */
export function createTextReader(field: DescField): TextReader | undefined {
  const reading = plainTextReading(field) ?? (field.message === undefined ? undefined : jsonReading(field.message));
  return reading === undefined ? undefined : withOptions(field, reading);
}

/** The error for an invalid text. `name` is the name of the parameter. */
export function invalidText(reader: TextReader, name: string, options?: { repeatsInput?: boolean }): RequestError {
  return new RequestError(400, reader.reason, `${name}: must be ${reader.expected}`, options);
}

function jsonReading(desc: DescMessage): TextReading | undefined {
  const json = (expected: string, read: (value: unknown) => unknown): TextReading => ({
    isJson: true,
    read: (text) => read(jsonFromText(text)),
    expected,
  });
  switch (desc.typeName) {
    case StructSchema.typeName:
      return json("a JSON object", (value) => (isObject(value) ? value : undefined));
    case ListValueSchema.typeName:
      return json("a JSON array", (value) => (Array.isArray(value) ? messageFromJson(desc, value) : undefined));
    case ValueSchema.typeName:
      return json("a JSON value", (value) => (value === undefined ? undefined : messageFromJson(desc, value)));
    default:
      return undefined;
  }
}

/** Parses JSON, `exact` as in `parseJson`. Returns undefined if the text is not valid JSON. */
export function jsonFromText(text: string, exact: boolean = false): unknown {
  try {
    return parseJson(encodeUtf8(text), MAX_JSON_DEPTH, { exact });
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
