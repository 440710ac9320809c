import type { DescField, DescMethod } from "@bufbuild/protobuf";
import type { Route, Variant } from "../routing/route.ts";
import { isFileField, isHttpBody } from "../schema/http-body.ts";
import { fieldRule, maxBodyBytesOf, methodRule } from "../schema/rules.ts";
import { FORM_TYPE, JSON_TYPE, MULTIPART_TYPE } from "../http/media-type.ts";
import { describe } from "./comments.ts";
import type { SchemaUse } from "./components.ts";
import { mergeContents, NDJSON_LINES, streamMediaType } from "./content.ts";
import { NDJSON_TYPE } from "../protocols/rest/stream/framing.ts";
import { boundPaths, fieldOf, type OperationContext, partialOf } from "./context.ts";
import type { Content, MediaType, RequestBodyObject, Schema } from "./document.ts";
import { ignoreBodyValues } from "./parameters.ts";
import { parameterFields } from "./parameter-fields.ts";

export function describeRequestBody(route: Route, context: OperationContext): RequestBodyObject | undefined {
  const { method, variants } = route;
  const withBody = variants.filter(({ body }) => body !== "");
  if (withBody.length === 0) {
    return undefined;
  }
  const contents = withBody.map((variant) => ({ variant, content: requestContent(route, variant, context) }));
  const ignored = ignoreBodyValues(method.input).map(
    ([header, values]) =>
      `With \`${header}: ${values.join("`, `")}\` the body is ignored and optional; otherwise it is required.`,
  );
  return {
    ...describe(...ignored, describeLimit(method, context)),
    required:
      ignored.length === 0 &&
      withBody.length === variants.length &&
      !withBody.some(({ body }) => mayBeEmpty(route, body, context)),
    content: mergeContents(method, contents, context.schemas.form),
  };
}

/** True if an empty body is accepted, as a message without required fields. */
function mayBeEmpty(route: Route, body: string, { schemas, usesOf }: OperationContext): boolean {
  const { method } = route;
  const bound = boundPaths(route);
  const use = { ...usesOf(method).request, partial: partialOf(method, route.httpMethod === "PATCH") };
  return (
    body === "*" &&
    method.methodKind === "unary" &&
    !method.input.fields.some((field) => schemas.isRequired(field, use) && !bound.has(field.name))
  );
}

/** The limit that is not the default one of the server. */
export function describeLimit(method: DescMethod, { readMaxBytes }: OperationContext): string | undefined {
  const maxBytes = maxBodyBytesOf(method, readMaxBytes);
  return maxBytes === Infinity ? undefined : `At most ${maxBytes} bytes; a larger body is rejected with 413.`;
}

function requestContent(route: Route, { body }: Variant, context: OperationContext): Content {
  const { method } = route;
  const { schemas } = context;
  const { consumes, ignoreUnknown } = methodRule(method);
  const field = fieldOf(method.input, body);
  const message = field === undefined ? method.input : field.fieldKind === "message" ? field.message : undefined;
  if (isHttpBody(message)) {
    const bytes = { schema: { description: "Raw bytes." } };
    return Object.fromEntries((consumes.length === 0 ? ["*/*"] : consumes).map((type) => [type, bytes]));
  }
  const boundToPath = [...boundPaths(route)].filter((path) => !path.includes("."));
  const omitted = method.input.fields.map(({ name }) => name).filter((name) => boundToPath.includes(name));
  const { request } = context.usesOf(method);
  const partial = partialOf(method, route.httpMethod === "PATCH");
  const use: SchemaUse = {
    ...request,
    open: ignoreUnknown || request.json.ignoreUnknownFields,
    // The body that is a field is a message in the request.
    partial: field !== undefined && partial === "all" ? "nested" : partial,
    omit: field === undefined ? omitted : [],
  };
  const schema = field === undefined ? schemas.message(method.input, use) : schemas.value(field, use);
  if (method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming") {
    const types = consumes.length === 0 ? [NDJSON_TYPE, JSON_TYPE] : consumes;
    const array = { schema: { type: "array", items: schema } };
    return Object.fromEntries(
      types.map((type) => [type, type === JSON_TYPE ? array : streamMediaType(schema, NDJSON_LINES)]),
    );
  }
  const content: Content = {};
  for (const type of consumes.length === 0 ? [JSON_TYPE] : consumes) {
    content[type] = isForm(type) ? describeForm(route, type, context) : { schema };
  }
  return content;
}

function isForm(mediaType: string): boolean {
  return mediaType === FORM_TYPE || mediaType === MULTIPART_TYPE;
}

/**
 * Describes a form body: the fields that parameters can set, including fields with `no_query`; in multipart also files.
 */
function describeForm(route: Route, type: string, context: OperationContext): MediaType {
  const { method } = route;
  const { input } = method;
  const { schemas, comments } = context;
  const { request } = context.usesOf(method);
  const bound = boundPaths(route);
  const properties: Record<string, Schema> = {};
  const encoding: Record<string, Schema> = {};
  const required: string[] = [];
  const add = (name: string, field: DescField, schema: Schema): void => {
    properties[name] = { ...schema, ...describe(comments(field), schema["description"] as string | undefined) };
    if (field.parent === input && schemas.isRequired(field, request)) {
      required.push(name);
    }
  };
  const options = { from: "form", isBound: (path: string) => bound.has(path) } as const;
  for (const { name, field, schema, style } of parameterFields(method, options, context)) {
    if (type === MULTIPART_TYPE && isFileField(field)) {
      continue;
    }
    add(name, field, schema);
    if (style === "json") {
      encoding[name] = { contentType: JSON_TYPE };
    } else if (style === "repeated" && type === FORM_TYPE) {
      // The default, which not every generator knows.
      encoding[name] = { style: "form", explode: true };
    } else if (style === "keys") {
      encoding[name] = { style: "deepObject", explode: true };
    }
  }
  if (type === MULTIPART_TYPE) {
    for (const field of input.fields) {
      if (isFileField(field) && fieldRule(field).header === "" && !bound.has(field.name)) {
        const file: Schema = { contentMediaType: "application/octet-stream" };
        add(field.jsonName, field, field.fieldKind === "list" ? { type: "array", items: file } : file);
      }
    }
  }
  const ignoresUnknown =
    methodRule(method).ignoreUnknown || request.json.ignoreUnknownFields || context.unknownQuery === "ignore";
  return {
    schema: {
      type: "object",
      ...(Object.keys(properties).length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
      ...(ignoresUnknown ? {} : { additionalProperties: false }),
    },
    ...(Object.keys(encoding).length === 0 ? {} : { encoding }),
  };
}
