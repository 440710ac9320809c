import { FORM_TYPE, JSON_TYPE } from "../../http/media-type.ts";
import type { DescMessage, Message, Registry } from "@bufbuild/protobuf";
import { hasCustomJsonRepresentation, StructSchema } from "@bufbuild/protobuf/wkt";
import { createBodyWriter } from "../../json/write-body.ts";
import { boundFieldsOf, type Route, type Variant } from "../../routing/route.ts";
import type { FieldPath } from "../../schema/field-path.ts";
import { contentTypeOf, findRawBody } from "../../schema/http-body.ts";
import { methodRule } from "../../schema/rules.ts";
import { createMultipartWriter } from "./multipart-form.ts";
import { createParameterWriter, formatParameters } from "./parameters.ts";

export type RequestBody = {
  readonly contentType: string;
  readonly body: string | Uint8Array<ArrayBuffer> | Blob;
};

/** Creates the body of a message; undefined if it has none. */
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
