import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { hasContent, type Route, type Variant } from "../routing/route.ts";
import { isHttpBody } from "../schema/http-body.ts";
import { findRepresentations } from "../schema/representations.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { JSON_TYPE } from "../http/media-type.ts";
import { describe } from "./comments.ts";
import { mergeContents } from "./content.ts";
import { fieldOf, type OperationContext } from "./context.ts";
import type { Content, Response, ResponseHeader } from "./document.ts";
import { describeStream } from "./stream.ts";

/** Describes the responses of a route by status, including errors. */
export function describeResponses(route: Route, context: OperationContext): Record<string, Response> {
  const { method, variants } = route;
  const { etag, variants: rule, otherStatuses } = methodRule(method);
  const headers = responseHeaders(method, context);
  const responses = new Map<string, Response>();
  const addSuccess = (status: number, description: string, bodies: readonly Variant[]): void => {
    const contents = bodies.map((variant) => ({ variant, content: responseContent(route, variant, context) }));
    responses.set(String(status), {
      description,
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
      ...(bodies.length === 0 ? {} : { content: mergeContents(method, contents, context.schemas.form) }),
    });
  };
  for (const [status, members] of Map.groupBy(variants, (variant) => variant.status)) {
    const bodies = members.filter(({ hasBody }) => hasBody);
    const values = members.map(({ value }) => `\`${value}\``).join(" or ");
    const only = rule === undefined || members.length === variants.length ? "" : ` With \`${rule.header}\` ${values}.`;
    addSuccess(status, `Success${withoutBody(bodies)}.${only}`, bodies);
  }
  for (const { status, description } of otherStatuses.filter((each) => !responses.has(String(each.status)))) {
    const bodies = hasContent(status) ? variants.filter(({ hasBody }) => hasBody) : [];
    addSuccess(status, description === "" ? `Success${withoutBody(bodies)}.` : description, bodies);
  }
  if (etag !== "" && (route.httpMethod === "GET" || route.httpMethod === "HEAD")) {
    responses.set("304", {
      description: "The ETag matches If-None-Match.",
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
    });
  }
  context.errors.add(responses, errorMessages(method, context));
  return Object.fromEntries([...responses].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function withoutBody(bodies: readonly Variant[]): string {
  return bodies.length === 0 ? ", without a body" : "";
}

/** The messages with the `error` option that calls of a method can fail with. */
function errorMessages(method: DescMethod, context: OperationContext): DescMessage[] {
  const { requestError } = methodRule(method);
  return [
    ...new Set([
      ...(requestError === "" ? [] : [requireMessage(requestError, context)]),
      ...context.errorMessages(method),
    ]),
  ];
}

function responseHeaders(
  method: DescMethod,
  { schemas, comments, usesOf }: OperationContext,
): Record<string, ResponseHeader> {
  const rule = methodRule(method);
  const headers: Record<string, ResponseHeader> = {};
  const etagField = fieldOf(method.output, rule.etag);
  if (etagField !== undefined) {
    headers["ETag"] = {
      description: `\`${etagField.jsonName}\` of the response, in quotes.`,
      schema: { type: "string" },
    };
  }
  for (const field of method.output.fields) {
    const { header } = fieldRule(field);
    if (header !== "") {
      headers[header] = { ...describe(comments(field)), schema: schemas.parameter(field, usesOf(method).response) };
    }
  }
  for (const { name, value } of rule.headers) {
    headers[name] = { schema: { type: "string", const: value } };
  }
  return headers;
}

function responseContent({ method }: Route, { responseBody }: Variant, context: OperationContext): Content {
  const { schemas } = context;
  const field = fieldOf(method.output, responseBody);
  const message = field === undefined ? method.output : field.fieldKind === "message" ? field.message : undefined;
  if (isHttpBody(message)) {
    return { "*/*": { schema: { description: "Raw bytes of the type in Content-Type." } } };
  }
  const { response } = context.usesOf(method);
  let schema = field === undefined ? schemas.message(method.output, response) : schemas.value(field, response);
  if (schemas.form === "exact" && field?.fieldKind === "message" && schema["$ref"] !== undefined) {
    schema = { anyOf: [schema, { type: "null" }] };
  }
  if (method.methodKind === "bidi_streaming" || method.methodKind === "server_streaming") {
    const messages = errorMessages(method, context);
    const error = (isWrapped: boolean) => context.errors.inStream(messages, isWrapped);
    return describeStream(method, schema, error, context);
  }
  const representations = findRepresentations(method).map(({ mediaType, field: { name } }) => {
    const declared = fieldOf(method.output, name);
    return [mediaType, { schema: { ...(declared && describe(context.comments(declared))), type: "string" } }] as const;
  });
  return { [JSON_TYPE]: { schema }, ...Object.fromEntries(representations) };
}

function requireMessage(name: string, { findMessage }: OperationContext): DescMessage {
  const message = findMessage(name);
  if (message === undefined) {
    throw new Error(`no message ${name} in the files of the described services`);
  }
  return message;
}
