import type { DescField, DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import { parseETags, valueOf } from "../../http/etag.ts";
import { plainTextReading } from "../../json/plain-text-reading.ts";
import { headerFields } from "../../schema/header-fields.ts";
import { getField, setField } from "../../schema/field-value.ts";
import { fieldRule, methodRule } from "../../schema/rules.ts";

export type HeaderReader = (message: Message, header: Headers) => void;

/** Compiles the reader of a method's response headers: the fields with the `header` option, and the `etag` field. */
export function createResponseHeaderReader(method: DescMethod): HeaderReader {
  const readFields = createHeaderFieldsReader(method.output);
  const tag = method.output.fields.find(({ name }) => name === methodRule(method).etag);
  const readTag = tag && plainTextReading(tag)?.read;
  return (message, header) => {
    readFields(message, header);
    const sent = header.get("etag");
    // The field is in the body too, unless the response has none.
    if (tag !== undefined && sent !== null && !getField(message, tag)) {
      const tags = parseETags(sent);
      const [only] = tags === "*" || tags === undefined ? [] : tags;
      const value = only && readTag?.(valueOf(only.value));
      if (value !== undefined) {
        setField(message, tag, value);
      }
    }
  };
}

/** Compiles the reader of the fields with the `header` option. A value that does not fit its field is ignored. */
export function createHeaderFieldsReader(desc: DescMessage): HeaderReader {
  const fields = headerFields(desc).map((field) => ({
    field,
    name: fieldRule(field).header,
    read: plainTextReading(field)?.read ?? (() => undefined),
  }));
  return (message, header) => {
    for (const { field, name, read } of fields) {
      const text = header.get(name);
      if (text !== null) {
        const value = readHeader(field, text, read);
        if (value !== undefined) {
          setField(message, field, value);
        }
      }
    }
  };
}

function readHeader({ fieldKind }: DescField, text: string, read: (text: string) => unknown): unknown {
  if (fieldKind !== "list") {
    return read(decodeText(text));
  }
  const items = text.split(/, ?/).map((item) => read(decodeItem(item)));
  return items.includes(undefined) ? undefined : items;
}

/** Only the characters that a header can't contain are percent-encoded; other escapes are text. */
function decodeText(text: string): string {
  return text.replaceAll(/(?:%[\dA-F]{2})+/g, (escapes) => {
    const decoded = decodeItem(escapes);
    return /^[^\t -~]+$/.test(decoded) ? decoded : escapes;
  });
}

function decodeItem(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
