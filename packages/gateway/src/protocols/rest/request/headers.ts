import type { DescMessage, Message } from "@bufbuild/protobuf";
import type { RequestHeaders } from "../../../http/request.ts";
import { headerFields, isSingularOutsideOneof } from "../../../schema/header-fields.ts";
import { enumNames, fieldRule } from "../../../schema/rules.ts";
import { createTextReader, invalidText } from "../../../json/text-reader.ts";

/** The fields of a request message that are bound to headers. */
export type HeaderFields = {
  /** Sets the fields whose headers were sent. */
  assignTo(message: Message): void;
  /** Whether a value has the `ignore_body` option. */
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
