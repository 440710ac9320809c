import { decodeUtf8 } from "#platform/bytes";
import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { RequestError } from "../../../http/request-error.ts";
import type { FormOptions } from "./form.ts";
import { setField } from "../../../schema/field-value.ts";
import { isHttpBody, isFileField } from "../../../schema/http-body.ts";
import { isUtf8Charset, mediaTypeOf } from "../../../http/media-type.ts";
import { parseMultipart, type Part } from "./multipart.ts";
import { createParameterReader } from "./parameters.ts";
import { fieldRule } from "../../../schema/rules.ts";
import { findBinding } from "../../../schema/bound-fields.ts";

/** Reads a multipart/form-data body into a message; the boundary is a parameter of the Content-Type. */
export type MultipartReader = (bytes: Uint8Array, contentType: string) => Message;

/**
 * Compiles a multipart reader. Text parts are the parameters of a form. Files, and all parts for a google.api.HttpBody,
 * set or append to the top-level fields of type bytes and HttpBody. Throws an Error if the message has no such field.
 */
export function createMultipartReader(desc: DescMessage, { ignoreUnknown, parameters }: FormOptions): MultipartReader {
  const fields = new Map<string, DescField>();
  for (const field of desc.fields) {
    if (fieldRule(field).header === "" && isFileField(field)) {
      fields.set(field.jsonName, field).set(field.name, field);
    }
  }
  if (fields.size === 0) {
    throw new Error(`${desc.typeName} has no field of type bytes or google.api.HttpBody for multipart/form-data`);
  }
  const unknown = ignoreUnknown ? "ignore" : parameters.unknown;
  const readText = createParameterReader(desc, { ...parameters, unknown, from: "form" });
  const fileFields = [...new Set(fields.values())].map(({ name }) => name).join(", ");

  return (bytes, contentType) => {
    const message = create(desc) as Message & Record<string, unknown>;
    const texts: string[] = [];
    const files: [DescField, Part][] = [];
    const seen = new Set<DescField>();
    for (const part of parseMultipart(bytes, contentType)) {
      const field = fields.get(part.name);
      const isText = isTextPart(part, field);
      if (field !== undefined && field.fieldKind !== "list") {
        if (seen.has(field)) {
          throw new RequestError(400, reasonOf(field), `${field.name}: set more than once`);
        }
        seen.add(field);
      }
      if (isText && !isHttpBody(field?.message)) {
        // As a form, so that the rules and errors of parameters apply to text parts too.
        texts.push(`${encodeURIComponent(part.name)}=${encodeURIComponent(textOf(part))}`);
      } else if (field !== undefined) {
        files.push([field, part]);
      } else if (desc.fields.some(({ name, jsonName }) => name === part.name || jsonName === part.name)) {
        throw new RequestError(400, undefined, `a file can only be sent for ${fileFields}`);
      } else if (unknown === "reject") {
        throw new RequestError(400, undefined, `a file for an unknown field; the fields for files are ${fileFields}`);
      }
    }
    readText(message, texts.join("&"), 0);
    for (const [field, part] of files) {
      const source = findBinding(parameters.boundFields, field);
      if (source === undefined) {
        addFile(message, field, part);
      } else if (parameters.bound === "reject") {
        throw new RequestError(400, undefined, `${field.name}: set by the path, so it can't be a part`);
      }
    }
    return message;
  };
}

/**
 * True if a part is a form parameter. A part without Content-Type is text/plain (RFC 7578, section 4.4). A part of type
 * application/json is a parameter too, unless its field is for files.
 */
function isTextPart({ filename, contentType = "text/plain" }: Part, field: DescField | undefined): boolean {
  const type = mediaTypeOf(contentType);
  return filename === undefined && (type === "text/plain" || (type === "application/json" && field === undefined));
}

function textOf({ name, contentType, data }: Part): string {
  const text = contentType === undefined || isUtf8Charset(contentType) ? decodeUtf8(data) : undefined;
  if (text === undefined) {
    throw new RequestError(400, undefined, `${name.slice(0, 100)}: text in UTF-8 was expected`, { repeatsInput: true });
  }
  return text;
}

function addFile(message: Message & Record<string, unknown>, field: DescField, part: Part): void {
  const { data } = part;
  const value = isHttpBody(field.message)
    ? create(field.message, { contentType: part.contentType ?? "text/plain", data })
    : data;
  if (field.fieldKind === "list") {
    (message[field.localName] as unknown[]).push(value);
    return;
  }
  const member = field.oneof && (message[field.oneof.localName] as { case: string | undefined }).case;
  if (member !== undefined) {
    throw new RequestError(400, reasonOf(field), `${field.name}: ${member} of the same oneof is already set`);
  }
  setField(message, field, value);
}

function reasonOf(field: DescField): string | undefined {
  const { invalid } = fieldRule(field);
  return invalid === "" ? undefined : invalid;
}
