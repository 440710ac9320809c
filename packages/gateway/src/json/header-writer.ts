import { createRegistry, type DescMessage, type Message } from "@bufbuild/protobuf";
import { fieldWriter } from "./write.ts";
import { headerFields, isSingularOutsideOneof } from "../schema/header-fields.ts";
import { fieldRule } from "../schema/rules.ts";

/** Header fields are scalars, so no types of google.protobuf.Any are needed. */
const noTypes = createRegistry();

/** Compiles the writer of the fields with the `header` option; unset and empty fields are omitted. */
export function createHeaderWriter(
  desc: DescMessage,
): (message: Message, headers: Record<string, string | string[]>) => void {
  const fields = headerFields(desc).map((field) => {
    if (!isSingularOutsideOneof(field) && !(field.fieldKind === "list" && field.listKind === "scalar")) {
      throw new Error(
        `${field.toString()}: a field with the option header must be singular and outside of oneofs, or a list of scalars`,
      );
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

/** Percent-encodes the characters that are not allowed in a header value (RFC 9110, section 5.5). */
function headerText(text: string): string {
  return /[^\t -~]/.test(text)
    ? text.toWellFormed().replaceAll(/[^\t -~]+/g, (characters) => encodeURIComponent(characters))
    : text;
}

/** Percent-encodes commas too, which separate the items of a list; clients decode each item with decodeURIComponent. */
function itemText(item: unknown): string {
  return headerText(String(item).replaceAll(/[%,]/g, encodeURIComponent));
}
