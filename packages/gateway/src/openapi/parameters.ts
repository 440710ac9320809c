import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import { enumNames, fieldRule, methodRule } from "../schema/rules.ts";
import { describe } from "./comments.ts";
import { fieldOf, type OperationContext } from "./context.ts";
import type { ParameterObject, Schema } from "./document.ts";
import { parameterFields, type ParameterField } from "./parameter-fields.ts";

/** The header parameters: of variants and fields, If-Match and If-None-Match. */
export function headerParameters({ method, httpMethod }: Route, context: OperationContext): ParameterObject[] {
  const { variants, etag, ifMatch } = methodRule(method);
  const parameters: ParameterObject[] = [];
  if (variants !== undefined) {
    parameters.push({
      name: variants.header,
      in: "header",
      description: "Selects the variant of the operation, see its description.",
      schema: { type: "string", enum: variants.variants.map(({ value }) => value), default: variants.default },
    });
  }
  for (const field of method.input.fields) {
    const { header } = fieldRule(field);
    if (header !== "" && context.schemas.canBeParameter(field)) {
      const schema = context.schemas.parameter(field, context.usesOf(method).request);
      parameters.push(describeParameter("header", { name: header, field, schema, style: "text" }, method, context));
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
  method: DescMethod,
  isBound: (path: string) => boolean,
  context: OperationContext,
): ParameterObject[] {
  return parameterFields(method, { from: "query", isBound }, context)
    .filter(({ name }) => !context.ignoredQuery.includes(name))
    .map((each) => describeParameter("query", each, method, context));
}

function describeParameter(
  where: "query" | "header",
  { name, field, style, schema: { description, ...schema } }: ParameterField,
  method: DescMethod,
  { schemas, comments, usesOf }: OperationContext,
): ParameterObject {
  // A field of a message that is not sent is not missing.
  const isRequired = field.parent === method.input && schemas.isRequired(field, usesOf(method).request);
  return {
    name,
    in: where,
    ...describe(
      comments(field),
      field.enum === undefined ? (description as string | undefined) : valuesOnly(description),
    ),
    ...(isRequired ? { required: true } : {}),
    ...(field.deprecated ? { deprecated: true } : {}),
    ...serialization(style, schema),
  };
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

/** The part of an enum's description that lists the values; the comment of the field replaces the rest. */
export function valuesOnly(description: unknown): string | undefined {
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
