import type { StreamFormats } from "../stream/framing.ts";
import { JSON_TYPE, NDJSON_LINES, streamed } from "./content.ts";
import type { Content, Schema } from "./document.ts";

/** Of the transcoder's option: what application/json means for a stream. */
export type StreamJson = StreamFormats["json"];

/** What a stream of responses is, for each type that Accept can ask for: as stream/framing.ts frames messages and errors. */
export function describeStream(item: Schema, error: Schema, json: StreamJson, onlyNdjson: boolean): Content {
  const failure = { title: "the failure", ...objectWith("error", error) };
  const ndjson = {
    "application/x-ndjson": streamed(
      { anyOf: [item, failure] },
      `${NDJSON_LINES} The last one of a stream that failed is \`{"error": …}\`.`,
    ),
  };
  if (onlyNdjson) {
    return ndjson;
  }
  return {
    ...ndjson,
    "text/event-stream": streamed(
      {
        anyOf: [
          eventOf(item),
          { title: "the failure", ...eventOf(error, { event: { type: "string", const: "error" } }) },
        ],
      },
      "An event for each message, its `data` JSON; an `error` event ends a stream that failed.",
    ),
    [JSON_TYPE]: {
      array: {
        schema: {
          type: "array",
          description: 'A stream that failed ends with `,{"error": …}`, and its array is not closed.',
          items: item,
        },
      },
      results: streamed(
        { anyOf: [objectWith("result", item), failure] },
        'A line of JSON, `{"result": …}`, for each message. The last one of a stream that failed is `{"error": …}`.',
      ),
      lines: streamed({ anyOf: [item, error] }, `${NDJSON_LINES} The last one of a stream that failed is the error.`),
    }[json],
  };
}

function objectWith(name: string, schema: Schema): Schema {
  return { type: "object", properties: { [name]: schema }, required: [name] };
}

/** OpenAPI 3.2 describes an event as an object of its fields. */
function eventOf(data: Schema, more: Schema = {}): Schema {
  return {
    type: "object",
    properties: { ...more, data: { type: "string", contentMediaType: JSON_TYPE, contentSchema: data } },
    required: [...Object.keys(more), "data"],
  };
}
