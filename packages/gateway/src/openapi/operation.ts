import type { DescMessage } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import { methodRule } from "../schema/rules.ts";
import { firstSentence } from "./comments.ts";
import { boundPaths, fieldOf, type OperationContext } from "./context.ts";
import type { OperationObject, Parameter } from "./document.ts";
import { headerParameters, queryParameters } from "./parameters.ts";
import { describeRequestBody } from "./request-body.ts";
import { describeResponses } from "./responses.ts";
import { describe } from "./schema.ts";

/** Describes the operation of a route. */
export function describeOperation(
  route: Route,
  operationId: string,
  pathParameters: readonly Parameter[],
  context: OperationContext,
): OperationObject {
  const { method } = route;
  const { schemas, comments } = context;
  const comment = comments(method);
  const security = context.security(method);
  const requestBody = describeRequestBody(route, context);
  const parameters = [
    ...pathParameters,
    ...headerParameters(route, schemas, comments),
    ...describeQuery(route, context),
  ];
  const summary = comment === undefined ? wordsOf(method.name) : firstSentence(comment);
  return {
    operationId,
    tags: [method.parent.name],
    summary,
    ...describe(comment?.replace(/[.;:]$/, "") === summary ? undefined : comment, describeVariants(route)),
    ...(method.deprecated ? { deprecated: true } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(requestBody === undefined ? {} : { requestBody }),
    responses: describeResponses(route, context),
    ...(security === undefined ? {} : { security }),
  };
}

/** Describes the variants by the value of their header; undefined if the method has none. */
function describeVariants({ method, variants }: Route): string | undefined {
  const rule = methodRule(method).variants;
  if (rule === undefined) {
    return undefined;
  }
  const lines = variants.map((variant) => {
    const isDefault = variant.value === rule.default ? " (default)" : "";
    const request = variant.body === "" ? "" : `request body: ${nameOfPart(method.input, variant.body)}; `;
    const response = variant.hasBody
      ? `${variant.status} with ${nameOfPart(method.output, variant.responseBody)}`
      : `${variant.status} without a body`;
    return `- \`${variant.value}\`${isDefault}: ${request}response: ${response}`;
  });
  return `The request header \`${rule.header}\` selects the variant:\n\n${lines.join("\n")}`;
}

function nameOfPart(desc: DescMessage, part: string): string {
  const field = fieldOf(desc, part);
  if (field === undefined) {
    return "an object";
  }
  return field.fieldKind === "list" ? `the array of \`${field.jsonName}\`` : `\`${field.jsonName}\``;
}

function describeQuery(route: Route, { schemas, comments }: OperationContext): Parameter[] {
  const { method, variants } = route;
  const bound = boundPaths(route);
  const found = new Map<string, Parameter>();
  for (const { body } of variants) {
    if (body !== "*") {
      const isBound = (path: string): boolean => path === body || bound.has(path);
      for (const parameter of queryParameters(method.input, isBound, schemas, comments)) {
        found.set(parameter.name, parameter);
      }
    }
  }
  return [...found.values()];
}

/** "Get settings" for "GetSettings". */
function wordsOf(name: string): string {
  const [first = "", ...others] = name.split(/(?<=[a-z0-9])(?=[A-Z])/);
  return [first, ...others.map((word) => word.toLowerCase())].join(" ");
}
