import type { Route, Variant } from "../routing/route.ts";
import { isHttpBody } from "../schema/http-body.ts";
import { fieldRule, maxBodyBytesOf, methodRule } from "../schema/rules.ts";
import { requestForm } from "./components.ts";
import { JSON_TYPE, mergeContents, NDJSON_LINES, streamed } from "./content.ts";
import { boundPaths, fieldOf, type OperationContext } from "./context.ts";
import type { Content, RequestBody } from "./document.ts";
import { describeForm, isForm } from "./form.ts";
import { ignoreBodyValues } from "./parameters.ts";
import { describe } from "./schema.ts";

/** What a binding takes in its body; undefined where it takes none. */
export function describeRequestBody(route: Route, context: OperationContext): RequestBody | undefined {
  const { method, variants } = route;
  const shapes = variants.filter(({ body }) => body !== "");
  if (shapes.length === 0) {
    return undefined;
  }
  const contents = shapes.map((variant) => ({ variant, content: requestContent(route, variant, context) }));
  const ignored = ignoreBodyValues(method.input).map(
    ([header, values]) =>
      `With \`${header}: ${values.join("`, `")}\` the body is ignored and may be absent; else there must be one.`,
  );
  const most = maxBodyBytesOf(method, Infinity);
  const longest = most === Infinity ? [] : [`A body of more than ${most} bytes is answered 413.`];
  return {
    ...describe(...ignored, ...longest),
    required:
      ignored.length === 0 && shapes.length === variants.length && !shapes.some(({ body }) => mayBeEmpty(route, body)),
    content: mergeContents(method, contents),
  };
}

/** As the body's reader has it: nothing is a message without fields, where none is required. */
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
    const bytes = { schema: { description: "Bytes, as they are." } };
    return Object.fromEntries((consumes.length === 0 ? ["*/*"] : consumes).map((type) => [type, bytes]));
  }
  const omit = [...boundPaths(route)].filter((path) => !path.includes("."));
  const own = method.input.fields.map(({ name }) => name).filter((name) => omit.includes(name));
  const form = requestForm(ignoreUnknown, field === undefined ? own : []);
  const schema = field === undefined ? schemas.message(method.input, form) : schemas.value(field, form);
  if (method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming") {
    return { "application/x-ndjson": streamed(schema, NDJSON_LINES) };
  }
  const content: Content = {};
  for (const type of consumes.length === 0 ? [JSON_TYPE] : consumes) {
    content[type] = isForm(type) ? describeForm(route, type, context) : { schema };
  }
  return content;
}
