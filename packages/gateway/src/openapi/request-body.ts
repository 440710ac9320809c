import type { Route, Variant } from "../routing/route.ts";
import { isHttpBody } from "../schema/http-body.ts";
import { fieldRule, maxBodyBytesOf, methodRule } from "../schema/rules.ts";
import { requestUse } from "./components.ts";
import { JSON_TYPE } from "../http/media-type.ts";
import { mergeContents, NDJSON_LINES, streamMediaType } from "./content.ts";
import { NDJSON_TYPE } from "../protocols/rest/stream/framing.ts";
import { boundPaths, fieldOf, type OperationContext } from "./context.ts";
import type { Content, RequestBody } from "./document.ts";
import { describeForm, isForm } from "./form.ts";
import { ignoreBodyValues } from "./parameters.ts";
import { describe } from "./schema.ts";

/** Describes the request body of a route; undefined if it has none. */
export function describeRequestBody(route: Route, context: OperationContext): RequestBody | undefined {
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
  const maxBytes = maxBodyBytesOf(method, Infinity);
  const limit = maxBytes === Infinity ? [] : [`At most ${maxBytes} bytes; a larger body is rejected with 413.`];
  return {
    ...describe(...ignored, ...limit),
    required:
      ignored.length === 0 &&
      withBody.length === variants.length &&
      !withBody.some(({ body }) => mayBeEmpty(route, body)),
    content: mergeContents(method, contents),
  };
}

/** Whether an empty body is accepted, as a message without required fields. */
function mayBeEmpty(route: Route, body: string): boolean {
  const bound = boundPaths(route);
  return (
    body === "*" &&
    route.method.methodKind === "unary" &&
    !route.method.input.fields.some((field) => fieldRule(field).required && !bound.has(field.name))
  );
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
  const use = requestUse(ignoreUnknown || context.ignoreUnknownFields, field === undefined ? omitted : []);
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
