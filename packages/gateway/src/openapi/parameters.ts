import type { DescMessage } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import { enumNames, fieldRule, methodRule } from "../schema/rules.ts";
import type { Comments } from "./comments.ts";
import { requestUse } from "./components.ts";
import { fieldOf } from "./context.ts";
import type { Parameter, Schema } from "./document.ts";
import { parameterFields, type ParameterField } from "./parameter-fields.ts";
import { describe, type Schemas } from "./schema.ts";

/** The header parameters: that of variants, those of fields, If-Match and If-None-Match. */
export function headerParameters({ method, httpMethod }: Route, schemas: Schemas, comments: Comments): Parameter[] {
  const { variants, etag, ifMatch } = methodRule(method);
  const parameters: Parameter[] = [];
  if (variants !== undefined) {
    parameters.push({
      name: variants.header,
      in: "header",
      description: "Selects the variant of the operation, see its description.",
      schema: { type: "string", enum: variants.variants.map(({ value }) => value), default: variants.default },
    });
  }
  for (const field of method.input.fields) {
    const { header, required } = fieldRule(field);
    if (header !== "") {
      const schema =
        field.fieldKind === "enum"
          ? schemas.enumValues(field.enum, "request")
          : schemas.value(field, requestUse(false));
      const { description, ...bare } = schema;
      parameters.push({
        name: header,
        in: "header",
        ...describe(comments(field), valuesOnly(description)),
        ...(required ? { required } : {}),
        ...(field.deprecated ? { deprecated: true } : {}),
        schema: bare,
      });
    }
  }
  if (ifMatch !== "") {
    parameters.push({
      name: "If-Match",
      in: "header",
      description: `The ETag of an earlier response. Equivalent to \`${jsonNameOf(method.input, ifMatch)}\` in the body.`,
      schema: { type: "string" },
    });
  }
  if (etag !== "" && (httpMethod === "GET" || httpMethod === "HEAD")) {
    parameters.push({
      name: "If-None-Match",
      in: "header",
      description: "The ETag of an earlier response. If it still matches, the response is 304 without a body.",
      schema: { type: "string" },
    });
  }
  return parameters;
}

function jsonNameOf(desc: DescMessage, name: string): string {
  return fieldOf(desc, name)?.jsonName ?? name;
}

/** The query parameters: one for each field that is not bound to the path, a header or the body. */
export function queryParameters(
  desc: DescMessage,
  isBound: (path: string) => boolean,
  schemas: Schemas,
  comments: Comments,
): Parameter[] {
  return parameterFields(desc, { from: "query", isBound }, schemas).map(({ name, field, schema: whole, style }) => {
    const { description, ...schema } = whole;
    return {
      name,
      in: "query",
      ...describe(comments(field), field.enum === undefined ? (description as string) : valuesOnly(description)),
      ...(fieldRule(field).required && !name.includes(".") ? { required: true } : {}),
      ...(field.deprecated ? { deprecated: true } : {}),
      ...serialization(style, schema),
    };
  });
}

function serialization(style: ParameterField["style"], schema: Schema): Schema {
  switch (style) {
    case "text":
      return { schema };
    case "repeated":
      return { style: "form", explode: true, schema };
    case "keys":
      return { style: "deepObject", explode: true, schema };
    case "json":
      return { content: { "application/json": { schema } } };
  }
}

/** The part of an enum's description that lists the values; the comment of the field replaces that of the enum. */
function valuesOnly(description: unknown): string | undefined {
  return typeof description !== "string" ? undefined : description.slice(Math.max(0, description.indexOf("- `")));
}

/** The headers, and their values, with the `ignore_body` option. */
export function ignoreBodyValues(desc: DescMessage): [header: string, values: string[]][] {
  return desc.fields.flatMap((field): [string, string[]][] => {
    const { header } = fieldRule(field);
    if (header === "" || field.fieldKind !== "enum") {
      return [];
    }
    const { rules, nameOf } = enumNames(field.enum);
    const values = [...rules].filter(([, rule]) => rule.ignoreBody).map(([number]) => nameOf.get(number) ?? "");
    return values.length === 0 ? [] : [[header, values]];
  });
}
