import type { DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import { createFieldTextReader } from "../../../json/field-text.ts";
import type { RequestHeaders } from "../../../http/request.ts";
import type { StreamFormats } from "../../../options/options.ts";
import { methodRule } from "../../../schema/rules.ts";
import { preferredOf } from "../../../http/media-type.ts";
import { RequestError } from "../../../http/request-error.ts";

/** The last ID of a stream for an EventSource, which sends it when it reconnects. */
const END_EVENT_ID = "end-of-stream";

/** True if an EventSource reconnects after the end of a stream. It stops when the response is 204 (WHATWG HTML, section 9.2.3). */
export function isAfterEnd(headers: RequestHeaders): boolean {
  return headers["last-event-id"] === END_EVENT_ID;
}

/** True if a request has the headers of an EventSource: its cache mode is "no-store", which is sent as `Cache-Control: no-cache`. */
function isEventSource(headers: RequestHeaders): boolean {
  return headers.accept === "text/event-stream" && headers["cache-control"] === "no-cache";
}

/** A format of a stream of messages in a response body. `json` is always a single line. */
export type Framing = {
  readonly mediaType: string;
  message(json: string, isFirst: boolean, message: Message): string;
  /** The last chunk of a stream that fails after its first message. */
  error(json: string): string;
  /** True if that has the error below a key `error`. */
  readonly wrapsErrors: boolean;
  /** The last chunk of a successful stream; may be empty. */
  end(isEmpty: boolean, headers: RequestHeaders): string;
  /** A chunk to send while there are no messages; undefined if the format has none. */
  readonly heartbeat: string | undefined;
};

export const NDJSON_TYPE = "application/x-ndjson";

/** NDJSON has no registered media type; these are in use. */
const ndjsonTypes = [NDJSON_TYPE, "application/ndjson", "application/jsonl", "application/x-jsonlines"];

export function isNdjson(mediaType: string): boolean {
  return ndjsonTypes.includes(mediaType);
}

const ndjson: Framing = {
  mediaType: NDJSON_TYPE,
  message: (json) => `${json}\n`,
  error: (json) => `{"error":${json}}\n`,
  wrapsErrors: true,
  end: () => "",
  heartbeat: undefined,
};

/**
 * Server-sent events (WHATWG HTML, section 9.2). `linesOf` returns the lines of a message before its data. The last chunk has no
 * data, so it dispatches no event.
 */
const createEvents = (linesOf: (message: Message) => string): Framing => ({
  mediaType: "text/event-stream",
  message: (json, _isFirst, message) => `${linesOf(message)}data: ${json}\n\n`,
  error: (json) => `event: error\ndata: ${json}\n\n`,
  wrapsErrors: false,
  end: (_isEmpty, headers) => (isEventSource(headers) ? `id: ${END_EVENT_ID}\n\n` : ""),
  heartbeat: ":\n\n",
});

/** Compiles the lines `id` and `event` of the events of a method. Throws an Error if one of the fields does not exist. */
export function createEventLines(method: DescMethod): (message: Message) => string {
  const { sse } = methodRule(method);
  const lines = (["id", "event"] as const).flatMap((name) => {
    const field = sse?.[name] ?? "";
    return field === "" ? [] : [{ name, read: createLineReader(method.output, name, field) }];
  });
  return (message) => {
    let text = "";
    for (const { name, read } of lines) {
      const value = read(message);
      if (/[\r\n\0]/.test(value) || (name === "event" && value === "error") || value === END_EVENT_ID) {
        throw new RangeError(
          `${method.toString()}: the ${name} of a server-sent event can't be ${JSON.stringify(value)}`,
        );
      }
      text += value === "" ? "" : `${name}: ${value}\n`;
    }
    return text;
  };
}

function createLineReader(desc: DescMessage, name: "id" | "event", field: string): (message: Message) => string {
  const oneof = name === "event" ? desc.oneofs.find((each) => each.name === field) : undefined;
  if (oneof === undefined) {
    return createFieldTextReader(desc, field, `the ${name} of events`);
  }
  const names = new Map(oneof.fields.map((each) => [each.localName, each.name]));
  return (message) => {
    const { case: localName = "" } = (message as unknown as Record<string, { case?: string }>)[oneof.localName] ?? {};
    return names.get(localName) ?? "";
  };
}

/** A JSON array. It is not closed after an error, so that clients don't accept it as complete. */
const array: Framing = {
  mediaType: "application/json",
  message: (json, isFirst) => (isFirst ? `[${json}` : `,${json}`),
  error: (json) => `,{"error":${json}}`,
  wrapsErrors: true,
  end: (isEmpty) => (isEmpty ? "[]" : "]"),
  heartbeat: undefined,
};

/** The format of grpc-gateway: each line is an object with a `result` or an `error`. */
const results: Framing = { ...ndjson, mediaType: "application/json", message: (json) => `{"result":${json}}\n` };

/** The format of ASP.NET Core: an error is a line without a wrapper. */
const lines: Framing = { ...ndjson, mediaType: "application/json", error: (json) => `${json}\n`, wrapsErrors: false };

/**
 * Compiles the negotiation of the framing by Accept (RFC 9110, section 12.5.1): the highest weight wins, then the more
 * specific media range, then the preferred format. The negotiator throws a RequestError of status 406 if none is accepted.
 */
export function createNegotiator(
  { preferred, json }: StreamFormats,
  onlyNdjson: boolean,
  linesOf: (message: Message) => string,
): (accept: string | undefined) => Framing {
  const events = createEvents(linesOf);
  const forJson = { array, results, lines }[json];
  const otherNames = ndjsonTypes.slice(1).map((mediaType) => ({ ...ndjson, mediaType }));
  const first = onlyNdjson ? ndjson : { ndjson, sse: events, json: forJson }[preferred];
  const offers = [first, ndjson, ...otherNames, ...(onlyNdjson ? [] : [events, forJson])];
  const names = onlyNdjson ? NDJSON_TYPE : [ndjson, events, forJson].map(({ mediaType }) => mediaType).join(", ");
  return (accept) => {
    if (accept === undefined || accept === "" || accept === "*/*") {
      return first;
    }
    const best = preferredOf(accept, offers);
    if (best === undefined) {
      throw new RequestError(406, "not_acceptable", `this operation responds with ${names}`, {
        headers: { vary: "Accept" },
      });
    }
    return best;
  };
}
