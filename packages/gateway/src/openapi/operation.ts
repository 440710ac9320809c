import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { Route } from "../routing/route.ts";
import { methodRule } from "../schema/rules.ts";
import { describe, firstSentence } from "./comments.ts";
import { boundPaths, fieldOf, type OperationContext } from "./context.ts";
import type { OperationObject, ParameterObject, RequestBodyObject } from "./document.ts";
import { headerParameters, queryParameters } from "./parameters.ts";
import { describeRequestBody } from "./request-body.ts";
import { describeResponses } from "./responses.ts";

type OperationParts = {
  /** A paragraph after the comment of the method. */
  readonly note?: string | undefined;
  readonly parameters?: readonly ParameterObject[];
  readonly requestBody?: RequestBodyObject | undefined;
  readonly responses: OperationObject["responses"];
};

/** An operation of an RPC, with the parts common to all of its operations. */
export function createOperation(
  method: DescMethod,
  operationId: string,
  { note, parameters = [], requestBody, responses }: OperationParts,
  context: OperationContext,
): OperationObject {
  const comment = context.comments(method);
  const security = context.security(method);
  const summary = comment === undefined ? wordsOf(method.name) : firstSentence(comment);
  return {
    operationId,
    tags: context.tagsOf(method),
    summary,
    ...describe(comment?.replace(/[.;:]$/, "") === summary ? undefined : comment, note),
    ...(method.deprecated || method.parent.deprecated ? { deprecated: true } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(requestBody === undefined ? {} : { requestBody }),
    responses,
    ...(security === undefined ? {} : { security }),
  };
}

export function describeOperation(
  route: Route,
  operationId: string,
  pathParameters: readonly ParameterObject[],
  context: OperationContext,
): OperationObject {
  const parts = {
    note: describeVariants(route),
    parameters: [...pathParameters, ...headerParameters(route, context), ...describeQuery(route, context)],
    requestBody: describeRequestBody(route, context),
    responses: describeResponses(route, context),
  };
  return createOperation(route.method, operationId, parts, context);
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

function describeQuery(route: Route, context: OperationContext): ParameterObject[] {
  const { method, variants } = route;
  const bound = boundPaths(route);
  const found = new Map<string, ParameterObject>();
  for (const { body } of variants) {
    if (body !== "*") {
      const isBound = (path: string): boolean => path === body || bound.has(path);
      for (const parameter of queryParameters(method, isBound, context)) {
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
