import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { hasContent, type Route, type Variant } from "../routing/route.ts";
import { isHttpBody } from "../schema/http-body.ts";
import { findRepresentations } from "../schema/representations.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { JSON_TYPE } from "../http/media-type.ts";
import { describe } from "./comments.ts";
import { mergeContents, NDJSON_LINES, streamMediaType } from "./content.ts";
import { fieldOf, type OperationContext } from "./context.ts";
import type { Content, Response, ResponseHeader, Schema } from "./document.ts";
import { NDJSON_TYPE } from "../protocols/rest/stream/framing.ts";

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

/**
 * Describes a stream of responses in each media type of stream/framing.ts, the preferred one first. `errorOf` returns the schema of an
 * error; `isWrapped` as in `ErrorResponses.inStream`.
 */
function describeStream(
  method: DescMethod,
  item: Schema,
  errorOf: (isWrapped: boolean) => Schema,
  context: OperationContext,
): Content {
  const { json, preferred } = context.streams;
  const failure = { title: "error", ...objectWith("error", errorOf(true)) };
  const ndjson = {
    [NDJSON_TYPE]: streamMediaType(
      { anyOf: [item, failure] },
      `${NDJSON_LINES} The last line of a failed stream is \`{"error": …}\`.`,
    ),
  };
  if (method.methodKind === "bidi_streaming") {
    return ndjson;
  }
  const contents: Content = {
    ...ndjson,
    [EVENTS_TYPE]: streamMediaType(
      {
        anyOf: [
          eventOf(item, {}, describeFields(method, context)),
          { title: "error", ...eventOf(errorOf(false), { event: { type: "string", const: "error" } }) },
        ],
      },
      "An event for each message, with `data` in JSON; a failed stream ends with an `error` event.",
    ),
    [JSON_TYPE]: {
      array: {
        schema: {
          type: "array",
          description: 'A failed stream ends with `,{"error": …}`, and its array is not closed.',
          items: item,
        },
      },
      results: streamMediaType(
        { anyOf: [objectWith("result", item), failure] },
        'A line of JSON, `{"result": …}`, for each message. The last line of a failed stream is `{"error": …}`.',
      ),
      lines: streamMediaType(
        { anyOf: [item, errorOf(false)] },
        `${NDJSON_LINES} The last line of a failed stream is the error.`,
      ),
    }[json],
  };
  const first = { ndjson: NDJSON_TYPE, sse: EVENTS_TYPE, json: JSON_TYPE }[preferred];
  return { [first]: contents[first], ...contents } as Content;
}

const EVENTS_TYPE = "text/event-stream";

/** The fields of events that the method has named. They are absent where the field is empty. */
function describeFields(method: DescMethod, { schemas, usesOf }: OperationContext): Schema {
  const { sse } = methodRule(method);
  const described = (["id", "event"] as const).flatMap((name) => {
    const field = fieldOf(method.output, sse?.[name] ?? "");
    if (field === undefined) {
      return [];
    }
    const { enum: values } = schemas.parameter(field, usesOf(method).response);
    const names = field.enum === undefined || values === undefined ? {} : { enum: values };
    return [[name, { type: "string", description: `\`${field.jsonName}\` of the message.`, ...names }] as const];
  });
  return Object.fromEntries(described);
}

function objectWith(name: string, schema: Schema): Schema {
  return { type: "object", properties: { [name]: schema }, required: [name] };
}

/** The schema of an event in OpenAPI 3.2: an object of its fields. */
function eventOf(data: Schema, more: Schema = {}, optional: Schema = {}): Schema {
  return {
    type: "object",
    properties: { ...optional, ...more, data: { type: "string", contentMediaType: JSON_TYPE, contentSchema: data } },
    required: [...Object.keys(more), "data"],
  };
}
