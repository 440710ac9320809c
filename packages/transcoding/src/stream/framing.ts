import { rankOf } from "../http/media-type.ts";
import { RequestError } from "../http/request-error.ts";
import { parseWeights } from "../http/weights.ts";

/** How the messages of a stream stand one behind the other in a body. All texts are JSON, of one line. */
export type Framing = {
  /** Of the answer. */
  readonly mediaType: string;
  message(json: string, isFirst: boolean): string;
  /** The last thing in a stream that fails after its first message; the connection breaks off behind it. */
  error(json: string): string;
  /** Ends a stream that went well. */
  end(isEmpty: boolean): string;
  /** What may be sent in silence, where the framing has such a thing. */
  readonly heartbeat: string | undefined;
};

export const NDJSON_TYPE = "application/x-ndjson";

/** NDJSON has no registered name; these are in use. */
const ndjsonTypes = [NDJSON_TYPE, "application/ndjson", "application/jsonl", "application/x-jsonlines"];

export function isNdjson(mediaType: string): boolean {
  return ndjsonTypes.includes(mediaType);
}

const ndjson: Framing = {
  mediaType: NDJSON_TYPE,
  message: (json) => `${json}\n`,
  error: (json) => `{"error":${json}}\n`,
  end: () => "",
  heartbeat: undefined,
};

/** Server-sent events (WHATWG HTML, section 9.2). */
const events: Framing = {
  mediaType: "text/event-stream",
  message: (json) => `data: ${json}\n\n`,
  error: (json) => `event: error\ndata: ${json}\n\n`,
  end: () => "",
  heartbeat: ":\n\n",
};

/** An array that failed is never closed: it is no JSON, so nobody takes it for complete. */
const array: Framing = {
  mediaType: "application/json",
  message: (json, isFirst) => (isFirst ? `[${json}` : `,${json}`),
  error: (json) => `,{"error":${json}}`,
  end: (isEmpty) => (isEmpty ? "[]" : "]"),
  heartbeat: undefined,
};

/** As grpc-gateway: each line names what it is. */
const results: Framing = {
  ...ndjson,
  mediaType: "application/json",
  message: (json) => `{"result":${json}}\n`,
};

/** As ASP.NET Core: an error is a line like any other. */
const lines: Framing = { ...ndjson, mediaType: "application/json", error: (json) => `${json}\n` };

export type StreamFormats = {
  /** What a client gets that does not care. */
  readonly preferred: "ndjson" | "sse" | "json";
  /** What application/json means for a stream. */
  readonly json: "array" | "results" | "lines";
};

/**
 * Compiles the choice by Accept (RFC 9110, section 12.5.1): the highest weight wins; of equal ones the one
 * that is named, not meant by a wildcard; of these the preferred. Throws a RequestError 406 where none is taken.
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
      throw new RequestError(406, "not_acceptable", `this operation answers ${names}`, { headers: { vary: "Accept" } });
    }
    return best;
  };
}
