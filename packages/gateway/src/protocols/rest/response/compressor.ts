import { encodeUtf8 } from "#platform/bytes";
import { compress, openCompression } from "#platform/compression";
import { addVary, type GatewayResponse } from "../../../http/response.ts";
import type { CompressionOptions } from "../../../options/options.ts";
import { RequestError } from "../../../http/request-error.ts";
import { mediaTypeOf } from "../../../http/media-type.ts";
import { parseWeights } from "../../../http/weights.ts";
import type { StreamCompression, ContentEncoding } from "../../../platform/compression.ts";

export type Compressor = {
  /** Throws a RequestError of status 406 if Accept-Encoding excludes all supported codings and identity. */
  assertAccepted(acceptEncoding: string | undefined): void;
  /** Compresses a response in the coding that the client prefers. Returns the same response if it is not to be compressed. */
  compress(response: GatewayResponse, acceptEncoding: string | undefined): GatewayResponse | Promise<GatewayResponse>;
};

type Choice = {
  /** The preferred coding; undefined for identity. */
  readonly encoding: ContentEncoding | undefined;
  /** True if identity is acceptable. */
  readonly identity: boolean;
};

const noPreference: Choice = { encoding: undefined, identity: true };

/** Bounds the cache, since clients choose the header's value. */
const MAX_CACHED_CHOICES = 100;

export function createCompressor({ encodings, minBytes, streams }: Required<CompressionOptions>): Compressor {
  const open = streams ? openCompression : undefined;
  const choices = new Map<string, Choice>();
  const choose = (acceptEncoding: string | undefined): Choice => {
    if (acceptEncoding === undefined) {
      return noPreference;
    }
    let choice = choices.get(acceptEncoding);
    if (choice === undefined) {
      choice = chooseEncoding(acceptEncoding, encodings);
      if (choices.size >= MAX_CACHED_CHOICES) {
        choices.clear();
      }
      choices.set(acceptEncoding, choice);
    }
    return choice;
  };

  /** The preferred coding of a response that may be compressed; undefined for identity. */
  const encodingOf = (
    headers: GatewayResponse["headers"],
    acceptEncoding: string | undefined,
  ): ContentEncoding | undefined => {
    if (!mayCompress(headers)) {
      return undefined;
    }
    addVary(headers, "Accept-Encoding");
    return choose(acceptEncoding).encoding;
  };

  const compressTo = async (
    response: GatewayResponse,
    body: string | Uint8Array,
    encoding: ContentEncoding,
  ): Promise<GatewayResponse> => {
    let compressed = response.compressed?.get(encoding);
    if (compressed === undefined) {
      compressed = compress(typeof body === "string" ? encodeUtf8(body) : body, encoding);
      response.compressed?.set(encoding, compressed);
    }
    return { status: response.status, headers: encodedHeaders(response, encoding), body: await compressed };
  };

  return {
    assertAccepted(acceptEncoding) {
      const { encoding, identity } = choose(acceptEncoding);
      if (encoding === undefined && !identity) {
        throw new RequestError(406, "not_acceptable", "Accept-Encoding excludes all supported content codings");
      }
    },
    compress(response, acceptEncoding) {
      const { status, headers, body } = response;
      if (typeof body === "string" || body instanceof Uint8Array) {
        const isSmall = body.length < minBytes && (acceptEncoding === undefined || choose(acceptEncoding).identity);
        const encoding = isSmall ? undefined : encodingOf(headers, acceptEncoding);
        return encoding === undefined ? response : compressTo(response, body, encoding);
      }
      if (body === undefined || open === undefined) {
        return response;
      }
      const encoding = encodingOf(headers, acceptEncoding);
      return encoding === undefined
        ? response
        : { status, headers: encodedHeaders(response, encoding), body: compressStream(body, () => open(encoding)) };
    },
  };
}

/**
 * The suffix of the entity tag of a compressed representation, `"r1-gzip"` for `"r1"`, since tags of representations
 * with different bytes must differ (RFC 9110, section 8.8.3.3). If-None-Match and If-Match accept all of them.
 */
export function etagSuffix(encoding: ContentEncoding): string {
  return `-${encoding}`;
}

function encodedHeaders(response: GatewayResponse, encoding: ContentEncoding): GatewayResponse["headers"] {
  const headers: GatewayResponse["headers"] = { ...response.headers, "content-encoding": encoding };
  const { etag } = headers;
  if (typeof etag === "string" && !etag.startsWith("W/")) {
    headers["etag"] = `${etag.slice(0, -1)}${etagSuffix(encoding)}"`;
  }
  return headers;
}

/** True if a body is of a compressible type, has no content coding yet, and no `no-transform` (RFC 9111, section 5.2.2.6). */
function mayCompress(headers: GatewayResponse["headers"]): boolean {
  const { "content-encoding": encoding, "content-type": contentType, "cache-control": cacheControl } = headers;
  return (
    encoding === undefined &&
    typeof contentType === "string" &&
    (contentType === "application/json" ||
      /^text\/|[/+](?:json|xml|(?:x-)?ndjson|jsonl|x-jsonlines|javascript|yaml)$/.test(mediaTypeOf(contentType))) &&
    !(cacheControl !== undefined && /\bno-transform\b/i.test(String(cacheControl)))
  );
}

/** Negotiates the content coding (RFC 9110, section 12.5.3). */
function chooseEncoding(acceptEncoding: string, encodings: readonly ContentEncoding[]): Choice {
  const weights = new Map(
    parseWeights(acceptEncoding).map(({ name, weight }) => [name === "x-gzip" ? "gzip" : name, weight]),
  );
  const any = weights.get("*");
  const identityWeight = weights.get("identity");
  let best: ContentEncoding | undefined;
  let bestWeight = 0;
  for (const encoding of encodings) {
    const weight = weights.get(encoding) ?? any ?? 0;
    if (weight > bestWeight) {
      best = encoding;
      bestWeight = weight;
    }
  }
  return {
    // Identity takes precedence only if it is listed with a higher weight.
    encoding: identityWeight !== undefined && identityWeight > bestWeight ? undefined : best,
    identity: (identityWeight ?? any) !== 0,
  };
}

/**
 * Compresses a streamed body chunk by chunk, with backpressure: the next chunk is read when the previous one was
 * consumed. `return` is passed on to `body` immediately, even while a chunk is awaited. An error of `body` is rethrown without
 * completing the compressed data. The compression is opened for the first chunk, and freed when the iteration ends.
 */
function compressStream(
  body: AsyncIterable<string | Uint8Array>,
  open: () => StreamCompression,
): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const source = body[Symbol.asyncIterator]();
      let compression: StreamCompression | undefined;
      let isClosed = false;
      const close = (): void => {
        isClosed = true;
        compression?.free();
      };
      /** Undefined if the iteration was closed in the meantime. */
      const read = async (): Promise<Uint8Array | undefined> => {
        for (;;) {
          const { done, value } = await source.next();
          if (isClosed) {
            return undefined;
          }
          compression ??= open();
          if (done === true) {
            const last = await compression.end();
            isClosed = true;
            return last;
          }
          // Compressing an empty chunk would produce flush bytes only.
          if (value.length > 0) {
            return compression.write(value);
          }
        }
      };
      return {
        async next() {
          try {
            const value = isClosed ? undefined : await read();
            return value === undefined ? { done: true, value } : { done: false, value };
          } catch (error) {
            if (isClosed) {
              return { done: true, value: undefined };
            }
            close();
            throw error;
          }
        },
        async return() {
          close();
          await source.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
