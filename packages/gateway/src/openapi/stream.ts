import type { StreamFormats } from "../protocols/rest/stream/framing.ts";
import { JSON_TYPE } from "../http/media-type.ts";
import { NDJSON_LINES, streamMediaType } from "./content.ts";
import type { Content, Schema } from "./document.ts";

/** The format of a stream in application/json, as in the gateway's options. */
export type StreamJson = StreamFormats["json"];

/**
 * Describes a stream of responses in each media type of stream/framing.ts. `errorOf` returns the schema of an error;
 * `isWrapped` as in `ErrorResponses.inStream`.
 */
export function describeStream(
  item: Schema,
  errorOf: (isWrapped: boolean) => Schema,
  json: StreamJson,
  onlyNdjson: boolean,
): Content {
  const failure = { title: "error", ...objectWith("error", errorOf(true)) };
  const ndjson = {
    "application/x-ndjson": streamMediaType(
      { anyOf: [item, failure] },
      `${NDJSON_LINES} The last line of a failed stream is \`{"error": …}\`.`,
    ),
  };
  if (onlyNdjson) {
    return ndjson;
  }
  return {
    ...ndjson,
    "text/event-stream": streamMediaType(
      {
        anyOf: [
          eventOf(item),
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
}

function objectWith(name: string, schema: Schema): Schema {
  return { type: "object", properties: { [name]: schema }, required: [name] };
}

/** The schema of an event in OpenAPI 3.2: an object of its fields. */
function eventOf(data: Schema, more: Schema = {}): Schema {
  return {
    type: "object",
    properties: { ...more, data: { type: "string", contentMediaType: JSON_TYPE, contentSchema: data } },
    required: [...Object.keys(more), "data"],
  };
}
