import { FORM_TYPE, JSON_TYPE } from "../../http/media-type.ts";
import { type DescField, type DescMessage, isFieldSet, type Message, type Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation, StructSchema } from "@bufbuild/protobuf/wkt";
import { createBodyWriter } from "../../json/write-body.ts";
import { boundFieldsOf, type Route, type Variant } from "../../routing/route.ts";
import type { FieldPath } from "../../schema/field-path.ts";
import { contentTypeOf, findRawBody, isFileField, type RawBody } from "../../schema/http-body.ts";
import { methodRule } from "../../schema/rules.ts";
import { createParameterWriter, formatParameters, type ParameterWriterOptions } from "./parameters.ts";
import { bindFields, type BoundFields } from "../../schema/bound-fields.ts";
import { getField } from "../../schema/field-value.ts";

export type RequestBody = { readonly contentType: string; readonly body: string | Uint8Array<ArrayBuffer> | Blob };

export type RequestBodyWriter = (message: Message) => RequestBody | undefined;

/** Compiles the body of a route: JSON if the method takes it, else a form, or the bytes of a google.api.HttpBody. */
export function createRequestBodyWriter(route: Route, { body }: Variant, registry: Registry): RequestBodyWriter {
  const { input } = route.method;
  if (body === "") {
    return () => undefined;
  }
  const raw = findRawBody(input, body);
  if (raw !== undefined) {
    return (message) => {
      const content = raw.unwrap(message);
      return content === undefined
        ? undefined
        : { contentType: contentTypeOf(content), body: new Uint8Array(content.data) };
    };
  }
  const { consumes } = methodRule(route.method);
  if (consumes.length === 0 || consumes.includes(JSON_TYPE)) {
    const write = createJsonWriter(route, body, registry);
    return (message) => ({ contentType: JSON_TYPE, body: write(message) });
  }
  const form = {
    from: "form",
    boundFields: boundFieldsOf(route, ""),
    maps: false,
    fieldMaskNames: "json",
    registry,
  } as const;
  if (consumes.includes(FORM_TYPE)) {
    const write = createParameterWriter(input, form);
    return (message) => ({ contentType: FORM_TYPE, body: formatParameters(write(message)) });
  }
  return createMultipartWriter(input, form);
}

/** Compiles the JSON of a body: of the field that it names, or of all fields that the path does not contain. */
export function createJsonWriter(
  { method: { input }, pathFields }: Pick<Route, "method" | "pathFields">,
  body: string,
  registry: Registry,
): (message: Message) => string {
  const write = createBodyWriter(input, body === "*" ? "" : body, registry, "request");
  if (body === "*") {
    return (message) => {
      const json = write(message);
      for (const path of pathFields) {
        remove(json as Record<string, unknown>, path);
      }
      return JSON.stringify(json);
    };
  }
  // Most servers reject null in place of a message.
  const unset = isObjectMessage(input.fields.find(({ name }) => name === body)?.message) ? {} : null;
  return (message) => JSON.stringify(write(message) ?? unset);
}

function isObjectMessage(desc: DescMessage | undefined): boolean {
  return desc !== undefined && (!hasCustomJsonRepresentation(desc) || desc.typeName === StructSchema.typeName);
}

/** JSON.stringify omits an undefined member. */
function remove(json: Record<string, unknown>, path: FieldPath): void {
  let owner: Record<string, unknown> | undefined = json;
  for (const { jsonName } of path.slice(0, -1)) {
    owner = owner?.[jsonName] as typeof owner;
  }
  const name = path.at(-1)?.jsonName;
  if (owner !== undefined && name !== undefined && Object.hasOwn(owner, name)) {
    owner[name] = undefined;
  }
}

/**
 * Compiles a multipart/form-data body (RFC 7578): files for the top-level fields of type bytes and HttpBody, text for the others.
 * FormData would change the line breaks of texts.
 */
function createMultipartWriter(
  desc: DescMessage,
  options: ParameterWriterOptions,
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
