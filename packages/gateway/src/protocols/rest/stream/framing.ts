import { rankOf } from "../../../http/media-type.ts";
import { RequestError } from "../../../http/request-error.ts";
import { parseWeights } from "../../../http/weights.ts";

/** A format of a stream of messages in a response body. `json` is always a single line. */
export type Framing = {
  /** The Content-Type of the response. */
  readonly mediaType: string;
  message(json: string, isFirst: boolean): string;
  /** The last chunk of a stream that fails after its first message. */
  error(json: string): string;
  /** Whether that has the error below a key `error`. */
  readonly wrapsErrors: boolean;
  /** The last chunk of a successful stream; may be empty. */
  end(isEmpty: boolean): string;
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

/** Server-sent events (WHATWG HTML, section 9.2). */
const events: Framing = {
  mediaType: "text/event-stream",
  message: (json) => `data: ${json}\n\n`,
  error: (json) => `event: error\ndata: ${json}\n\n`,
  wrapsErrors: false,
  end: () => "",
  heartbeat: ":\n\n",
};

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
const results: Framing = {
  ...ndjson,
  mediaType: "application/json",
  message: (json) => `{"result":${json}}\n`,
};

/** The format of ASP.NET Core: an error is a line without a wrapper. */
const lines: Framing = {
  ...ndjson,
  mediaType: "application/json",
  error: (json) => `${json}\n`,
  wrapsErrors: false,
};

export type StreamFormats = {
  /** The format for clients without a preference. */
  readonly preferred: "ndjson" | "sse" | "json";
  /** The format of a stream in application/json. */
  readonly json: "array" | "results" | "lines";
};

/**
 * Compiles the negotiation of the framing by Accept (RFC 9110, section 12.5.1): the highest weight wins, then the more
 * specific media range, then the preferred format. The negotiator throws a RequestError of status 406 if none is accepted.
 */
export function createNegotiator(
  { preferred, json }: StreamFormats,
  onlyNdjson: boolean,
): (accept: string | undefined) => Framing {
  const forJson = { array, results, lines }[json];
  const otherNames = ndjsonTypes.slice(1).map((mediaType) => ({ ...ndjson, mediaType }));
  const first = onlyNdjson ? ndjson : { ndjson, sse: events, json: forJson }[preferred];
  const offers = [first, ndjson, ...otherNames, ...(onlyNdjson ? [] : [events, forJson])];
  const names = onlyNdjson ? NDJSON_TYPE : [ndjson, events, forJson].map(({ mediaType }) => mediaType).join(", ");
  return (accept) => {
    if (accept === undefined || accept === "" || accept === "*/*") {
      return first;
    }
    const ranges = parseWeights(accept);
    let best: Framing | undefined;
    let bestRank = 0;
    for (const offer of offers) {
      const rank = rankOf(ranges, offer.mediaType);
      if (rank > bestRank) {
        best = offer;
        bestRank = rank;
      }
    }
    if (best === undefined) {
      throw new RequestError(406, "not_acceptable", `this operation responds with ${names}`, {
        headers: { vary: "Accept" },
      });
    }
    return best;
  };
}
