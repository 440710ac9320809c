import { isFieldSet, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { bindFields, type BoundFields } from "../../schema/bound-fields.ts";
import { getField } from "../../schema/field-value.ts";
import { contentTypeOf, type RawBody, isFileField } from "../../schema/http-body.ts";
import { createParameterWriter, type ParameterOptions } from "./parameters.ts";

/**
 * Compiles a multipart/form-data body (RFC 7578): files for the top-level fields of type bytes and HttpBody, text for the others.
 * FormData would change the line breaks of texts.
 */
export function createMultipartWriter(
  desc: DescMessage,
  options: ParameterOptions,
): (message: Message) => { readonly contentType: string; readonly body: Blob } {
  const files = desc.fields.filter((field) => isFileField(field) && !isBound(options.boundFields, field));
  const writeTexts = createParameterWriter(desc, {
    ...options,
    boundFields: bindFields(options.boundFields, files, "body"),
  });
  return (message) => {
    const boundary = createBoundary();
    const parts: (string | Uint8Array<ArrayBuffer>)[] = [];
    const add = (parameters: string, content: string | Uint8Array<ArrayBuffer>): void => {
      parts.push(`--${boundary}\r\nContent-Disposition: form-data; ${parameters}\r\n\r\n`, content, "\r\n");
    };
    for (const [name, value] of writeTexts(message)) {
      add(`name="${name}"`, value);
    }
    for (const field of files) {
      if (isFieldSet(message, field)) {
        for (const item of [getField(message as Message & Record<string, unknown>, field)].flat()) {
          const { contentType, data } = fileOf(item as RawBody | Uint8Array);
          add(`name="${field.name}"; filename="${field.name}"\r\nContent-Type: ${contentType}`, new Uint8Array(data));
        }
      }
    }
    parts.push(`--${boundary}--\r\n`);
    return { contentType: `multipart/form-data; boundary=${boundary}`, body: new Blob(parts) };
  };
}

/** Random, so that no content contains it. */
function createBoundary(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-");
}

function isBound(boundFields: BoundFields, field: DescField): boolean {
  return typeof boundFields === "string" || boundFields.has(field);
}

function fileOf(item: RawBody | Uint8Array): RawBody {
  return item instanceof Uint8Array
    ? { contentType: contentTypeOf(undefined), data: item }
    : { contentType: contentTypeOf(item), data: item.data };
}
