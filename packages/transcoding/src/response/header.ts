import { createRegistry, type DescMessage, type Message } from "@bufbuild/protobuf";
import { fieldWriter } from "../json/write.ts";
import { headerFields, isSingle } from "../schema/header-fields.ts";
import { fieldRule } from "../schema/rules.ts";

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
