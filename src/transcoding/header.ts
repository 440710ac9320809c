import { createRegistry, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";
import { fieldWriter } from "./json/write.ts";
import { enumSpelling, fieldRule } from "./rules.ts";
import { createTextReader, unfitText } from "./text.ts";

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
  const fields = headerFields(desc).map((field) => {
    const reader = isSingle(field) ? createTextReader(field) : undefined;
    if (reader === undefined || reader.isJson) {
      throw new Error(`${field.toString()}: a header can only be a single value outside a oneof`);
    }
    const name = fieldRule(field).header;
    return {
      localName: field.localName,
      name,
      header: name.toLowerCase(),
      reader,
      ignoreBody: (value: unknown) =>
        field.fieldKind === "enum" && enumSpelling(field.enum).rules.get(value as number)?.ignoreBody === true,
    };
  });
  if (fields.length === 0) {
    return () => nothing;
  }
  return (headers) => {
    const values: [string, unknown][] = [];
    let ignoreBody = false;
    for (const field of fields) {
      const text = headers[field.header];
      if (text !== undefined) {
        const value = field.reader.read(String(text));
        if (value === undefined) {
          throw unfitText(field.reader, field.name);
        }
        values.push([field.localName, value]);
        ignoreBody ||= field.ignoreBody(value);
      }
    }
    return {
      ignoreBody,
      fill(message: Message & Record<string, unknown>) {
        for (const [name, value] of values) {
          message[name] = value;
        }
      },
    };
  };
}

/** A header is one text: no google.protobuf.Any stands in it. */
const noTypes = createRegistry();

/** Compiles the writer of the fields with the `header` option; absent and empty ones are not sent. */
export function createHeaderWriter(
  desc: DescMessage,
): (message: Message, headers: Record<string, string | string[]>) => void {
  const fields = headerFields(desc).map((field) => {
    if (!isSingle(field) && !(field.fieldKind === "list" && field.listKind === "scalar")) {
      throw new Error(`${field.toString()}: a header can only be a single value outside a oneof, or a list of scalars`);
    }
    return { name: field.localName, header: fieldRule(field).header.toLowerCase(), write: fieldWriter(field, noTypes) };
  });
  return (message: Message & Record<string, unknown>, headers) => {
    for (const { name, header, write } of fields) {
      const value = message[name];
      if (value === undefined || value === "" || (Array.isArray(value) && value.length === 0)) {
        continue;
      }
      const json = write(value);
      headers[header] = Array.isArray(json) ? json.map(itemText).join(", ") : headerText(String(json));
    }
  };
}

/** What no header can hold (RFC 9110, section 5.5) is escaped, as in a URI. */
function headerText(text: string): string {
  return /[^\t -~]/.test(text)
    ? text.toWellFormed().replaceAll(/[^\t -~]+/g, (characters) => encodeURIComponent(characters))
    : text;
}

/** An item of a list: the comma separates, so that each is decoded by itself (decodeURIComponent). */
function itemText(item: unknown): string {
  return headerText(String(item).replaceAll(/[%,]/g, encodeURIComponent));
}

function headerFields(desc: DescMessage): DescField[] {
  return desc.fields.filter((field) => fieldRule(field).header !== "");
}

function isSingle(field: DescField): boolean {
  return field.fieldKind !== "list" && field.fieldKind !== "map" && field.oneof === undefined;
}
