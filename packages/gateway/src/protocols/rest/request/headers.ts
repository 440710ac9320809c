import { type DescMessage, type DescMethod, type Message, ScalarType } from "@bufbuild/protobuf";
import type { RequestHeaders } from "../../../http/request.ts";
import { headerFields, isSingularOutsideOneof } from "../../../schema/header-fields.ts";
import { enumNames, fieldRule, methodRule } from "../../../schema/rules.ts";
import { createTextReader, invalidText } from "../../../json/text-reader.ts";
import { parseETags, valueOf } from "../../../http/etag.ts";
import { RequestError } from "../../../http/request-error.ts";

/** The fields of a request message that are bound to headers. */
export type HeaderFields = {
  /** Sets the fields whose headers were sent. */
  assignTo(message: Message): void;
  /** True if a value has the `ignore_body` option. */
  readonly ignoreBody: boolean;
};

const noHeaderFields: HeaderFields = { assignTo: () => {}, ignoreBody: false };

/** Compiles the reader of the fields with the `header` option; the reader throws a RequestError for an invalid value. */
export function createHeaderReader(
  desc: DescMessage,
  ignoreEnumCase: boolean,
): (headers: RequestHeaders) => HeaderFields {
  const fields = headerFields(desc).map((field) => {
    const reader = isSingularOutsideOneof(field) ? createTextReader(field) : undefined;
    if (reader === undefined || reader.isJson) {
      throw new Error(
        `${field.toString()}: a field with the option header must be singular, outside of oneofs, and have a text form`,
      );
    }
    const name = fieldRule(field).header;
    return {
      localName: field.localName,
      name,
      header: name.toLowerCase(),
      reader,
      ignoreBody: (value: unknown) =>
        field.fieldKind === "enum" && enumNames(field.enum).rules.get(value as number)?.ignoreBody === true,
    };
  });
  if (fields.length === 0) {
    return () => noHeaderFields;
  }
  return (headers) => {
    const values: [string, unknown][] = [];
    let ignoreBody = false;
    for (const field of fields) {
      const text = headers[field.header];
      if (text !== undefined) {
        const value = field.reader.read(String(text), ignoreEnumCase);
        if (value === undefined) {
          throw invalidText(field.reader, field.name);
        }
        values.push([field.localName, value]);
        ignoreBody ||= field.ignoreBody(value);
      }
    }
    return {
      ignoreBody,
      assignTo(message: Message & Record<string, unknown>) {
        for (const [name, value] of values) {
          message[name] = value;
        }
      },
    };
  };
}

/** Sets the field of the `if_match` option, after all other fields. Throws a RequestError if If-Match can't be evaluated. */
type IfMatchReader = (headers: RequestHeaders, message: Message) => void;

/**
 * Compiles the `if_match` option: a single strong entity tag becomes the field's value, `*` leaves the field unset.
 * Returns undefined if the method does not have the option.
 */
export function createIfMatchReader(method: DescMethod): IfMatchReader | undefined {
  const name = methodRule(method).ifMatch;
  if (name === "") {
    return undefined;
  }
  const field = method.input.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING || field.oneof !== undefined) {
    throw new Error(`${method.input.typeName} has no string field "${name}" for If-Match`);
  }
  const { localName, jsonName } = field;
  return (headers, message: Message & Record<string, unknown>) => {
    const header = headers["if-match"];
    const tag = header === undefined ? undefined : readTag(header);
    if (tag === undefined) {
      return;
    }
    const current = message[localName];
    // Without presence, an empty string means that the field is not set.
    if (current !== undefined && current !== tag && !(current === "" && !field.proto.proto3Optional)) {
      throw new RequestError(400, undefined, `If-Match and ${jsonName} differ`);
    }
    message[localName] = tag;
  };
}

/** The value of the single strong tag; undefined for `*`. */
function readTag(header: string): string | undefined {
  const tags = parseETags(header);
  if (tags === undefined) {
    throw new RequestError(400, "invalid_argument", 'If-Match: must be an entity tag in double quotes, or "*"');
  }
  if (tags === "*") {
    return undefined;
  }
  // RFC 9110, section 13.1.1: If-Match uses strong comparison, so a weak tag matches nothing. The tags of compressed
  // and uncompressed representations have the same value.
  const strong = new Set(tags.filter(({ weak }) => !weak).map(({ value }) => valueOf(value)));
  const [only] = strong;
  if (only === undefined) {
    throw new RequestError(412, "precondition_failed", "If-Match: a weak entity tag never matches");
  }
  if (strong.size > 1) {
    throw new RequestError(400, "invalid_argument", "If-Match: must be a single entity tag");
  }
  return only;
}
