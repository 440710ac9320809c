import type { DescMethod } from "@bufbuild/protobuf";
import { NDJSON_TYPE } from "../protocols/rest/stream/framing.ts";
import { JSON_TYPE } from "../http/media-type.ts";
import { methodRule } from "../schema/rules.ts";
import { NDJSON_LINES, streamMediaType } from "./content.ts";
import { fieldOf, type OperationContext } from "./context.ts";
import type { Content, Schema } from "./document.ts";

/**
 * Describes a stream of responses in each media type of stream/framing.ts, the preferred one first. `errorOf` returns the schema of an
 * error; `isWrapped` as in `ErrorResponses.inStream`.
 */
export function describeStream(
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
