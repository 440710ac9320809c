import { FORM_TYPE, JSON_TYPE, MULTIPART_TYPE } from "../http/media-type.ts";
import type { DescField } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import { isFileField } from "../schema/http-body.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { describe } from "./comments.ts";
import { boundPaths, type OperationContext } from "./context.ts";
import type { MediaType, Schema } from "./document.ts";
import { parameterFields } from "./parameter-fields.ts";

export function isForm(mediaType: string): boolean {
  return mediaType === FORM_TYPE || mediaType === MULTIPART_TYPE;
}

/** Describes a form body: the fields that parameters can set, including those with `no_query`; in multipart also files. */
export function describeForm(route: Route, type: string, context: OperationContext): MediaType {
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
