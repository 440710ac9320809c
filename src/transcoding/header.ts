import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";
import { readText } from "./form.ts";
import { scalarToJson, type Scalar } from "./json/scalar.ts";
import { enumSpelling, fieldRule } from "./rules.ts";

/** What the headers of a request say of its message. */
export type HeaderFields = {
  /** Sets the fields that were given. */
  fill(message: Message): void;
  /** A value says that the body is ignored. */
  readonly ignoreBody: boolean;
};

const nothing: HeaderFields = { fill: () => {}, ignoreBody: false };

/** Compiles the reader of the fields with the `header` option; it throws a Fault where one does not fit. */
export function createHeaderReader(desc: DescMessage): (headers: IncomingHttpHeaders) => HeaderFields {
  const fields = headerFields(desc);
  if (fields.length === 0) {
    return () => nothing;
  }
  return (headers) => {
    const values: [DescField, unknown][] = [];
    let ignoreBody = false;
    for (const field of fields) {
      const text = headers[fieldRule(field).header.toLowerCase()];
      if (text !== undefined) {
        const value = readText(field, String(text));
        values.push([field, value]);
        ignoreBody ||=
          field.fieldKind === "enum" && enumSpelling(field.enum).rules.get(value as number)?.ignoreBody === true;
      }
    }
    return {
      ignoreBody,
      fill(message: Message & Record<string, unknown>) {
        for (const [field, value] of values) {
          message[field.localName] = value;
        }
      },
    };
  };
}

/** Compiles the writer of the fields with the `header` option; absent and empty ones are not sent. */
export function createHeaderWriter(
  desc: DescMessage,
): (message: Message, headers: Record<string, string | string[]>) => void {
  const fields = headerFields(desc).map((field) => [field.localName, fieldRule(field).header.toLowerCase()] as const);
  return (message: Message & Record<string, unknown>, headers) => {
    for (const [name, header] of fields) {
      const value = message[name];
      if (value !== undefined && value !== "") {
        headers[header] = String(scalarToJson(value as Scalar));
      }
    }
  };
}

function headerFields(desc: DescMessage): DescField[] {
  return desc.fields.filter((field) => fieldRule(field).header !== "");
}
