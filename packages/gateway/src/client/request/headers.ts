import { isFieldSet, type DescMethod, type Message, type Registry } from "@bufbuild/protobuf";
import { formatETag, tagOf } from "../../http/etag.ts";
import { fieldWriter } from "../../json/write.ts";
import { formatText } from "../../json/format-text.ts";
import { headerFields, isSingularOutsideOneof } from "../../schema/header-fields.ts";
import { fieldRule, methodRule } from "../../schema/rules.ts";
import { invalidArgument } from "./invalid-argument.ts";

/** Sets the headers of a message's fields. Throws a ConnectError for a value that a header can't contain. */
export type HeaderWriter = (message: Message, header: Headers) => void;

type Fields = Message & Record<string, unknown>;

/** Compiles the writer of the request fields with the `header` option, and of the `if_match` field unless the body has it. */
export function createRequestHeaderWriter(method: DescMethod, body: string, registry: Registry): HeaderWriter {
  const fields = headerFields(method.input)
    .filter(isSingularOutsideOneof)
    .map((field) => ({ field, name: fieldRule(field).header, write: fieldWriter(field, registry) }));
  const tag = body === "*" ? undefined : ifMatchField(method);
  return (message: Message, header) => {
    for (const { field, name, write } of fields) {
      if (isFieldSet(message, field)) {
        header.set(name, headerText(name, formatText(field, write((message as Fields)[field.localName]))));
      }
    }
    if (tag !== undefined && isFieldSet(message, tag)) {
      const value = formatETag(tagOf(String((message as Fields)[tag.localName])));
      if (value === undefined) {
        throw invalidArgument(`${tag.name}: an entity tag can't contain this text`);
      }
      header.set("If-Match", value);
    }
  };
}

export function ifMatchField(method: DescMethod): DescMethod["input"]["fields"][number] | undefined {
  const { ifMatch } = methodRule(method);
  return method.input.fields.find(({ name }) => name === ifMatch);
}

/** Servers remove spaces around a value (RFC 9110, section 5.5). */
function headerText(name: string, text: string): string {
  if (/^[\t ]|[\t ]$|[^\t -~\u0080-\u00ff]/.test(text)) {
    throw invalidArgument(`${name}: a header can't contain this text`);
  }
  return text;
}
