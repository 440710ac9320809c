import { promisify } from "node:util";
import { brotliCompress, constants, gzip, zstdCompress } from "node:zlib";
import type { TranscodingResponse } from "../http/response.ts";
import type { ContentEncoding } from "../http/content-coding.ts";
import { RequestError } from "../http/request-error.ts";
import { mediaTypeOf } from "../http/media-type.ts";
import { compressPieces } from "./compress.ts";
import { addVary } from "../http/vary.ts";
import { parseWeights } from "../http/weights.ts";

/** How answers are compressed. */
export type CompressionOptions = {
  /** The content codings, in the order of the server's preference among those that a client weighs alike. */
  readonly encodings?: readonly ContentEncoding[];
  /** A shorter body leaves as it is: the time would cost more than the bytes. */
  readonly minBytes?: number;
  /** Whether streams are compressed too, message by message: how long one is, is not known when it begins. */
  readonly streams?: boolean;
};

export type Compressor = {
  /** Throws a RequestError 406 where an Accept-Encoding leaves nothing that could be sent, not even a body as it is. */
  assertAccepted(acceptEncoding: string | undefined): void;
  /** The answer in the coding that the client prefers; the same answer where it leaves as it is. */
  compress(
    answer: TranscodingResponse,
    acceptEncoding: string | undefined,
  ): TranscodingResponse | Promise<TranscodingResponse>;
};

const compressBrotli = promisify(brotliCompress);

/**
 * Quality 4 is where brotli is still as fast as gzip; the others are at their own default. All of it
 * happens in the thread pool.
 */
const compressors: Readonly<Record<ContentEncoding, (bytes: Uint8Array) => Promise<Buffer>>> = {
  br: (bytes) => compressBrotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  gzip: promisify(gzip),
  zstd: promisify(zstdCompress),
};

/** What an Accept-Encoding asks for. */
type Choice = {
  /** The best coding; undefined: as it is. */
  readonly encoding: ContentEncoding | undefined;
  /** The body may be sent as it is. */
  readonly identity: boolean;
};

const asItIs: Choice = { encoding: undefined, identity: true };

/** Clients send few different ones; whoever sends many does not fill the memory. */
const REMEMBERED_CHOICES = 100;

export function createCompressor({ encodings, minBytes, streams }: Required<CompressionOptions>): Compressor {
  for (const encoding of encodings) {
    if (!Object.hasOwn(compressors, encoding)) {
      throw new Error(`compression: the encodings are br, gzip and zstd, not ${encoding}`);
    }
  }
  const choices = new Map<string, Choice>();
  const choose = (acceptEncoding: string | undefined): Choice => {
    if (acceptEncoding === undefined) {
      return asItIs;
    }
    let choice = choices.get(acceptEncoding);
    if (choice === undefined) {
      choice = chooseEncoding(acceptEncoding, encodings);
      if (choices.size >= REMEMBERED_CHOICES) {
        choices.clear();
      }
      choices.set(acceptEncoding, choice);
    }
    return choice;
  };

  const compressTo = async (
    answer: TranscodingResponse,
    body: string | Buffer,
    encoding: ContentEncoding,
  ): Promise<TranscodingResponse> => {
    let compressed = answer.compressed?.get(encoding);
    if (compressed === undefined) {
      compressed = compressors[encoding](typeof body === "string" ? Buffer.from(body) : body);
      answer.compressed?.set(encoding, compressed);
    }
    return { status: answer.status, headers: encodedHeaders(answer, encoding), body: await compressed };
  };

  return {
    assertAccepted(acceptEncoding) {
      const { encoding, identity } = choose(acceptEncoding);
      if (encoding === undefined && !identity) {
        throw new RequestError(406, "not_acceptable", "the Accept-Encoding leaves no form of the answer");
      }
    },
    compress(answer, acceptEncoding) {
      const { status, headers, body } = answer;
      const isWhole = typeof body === "string" || Buffer.isBuffer(body);
      if (body === undefined || (!isWhole && !streams)) {
        return answer;
      }
      if (isWhole && body.length < minBytes && (acceptEncoding === undefined || choose(acceptEncoding).identity)) {
        return answer;
      }
      if (!mayCompress(headers)) {
        return answer;
      }
      addVary(headers, "Accept-Encoding");
      const { encoding } = choose(acceptEncoding);
      if (encoding === undefined) {
        return answer;
      }
      return isWhole
        ? compressTo(answer, body, encoding)
        : { status, headers: encodedHeaders(answer, encoding), body: compressPieces(body, encoding) };
    },
  };
}

/**
 * The entity tag of a compressed form is another than that of the body as it is, for they differ byte by
 * byte (RFC 9110, section 8.8.3.3): `"r1"` is `"r1-gzip"` then. If-None-Match and If-Match take each for the same.
 */
export function etagSuffix(encoding: ContentEncoding): string {
  return `-${encoding}`;
}

function encodedHeaders(answer: TranscodingResponse, encoding: ContentEncoding): TranscodingResponse["headers"] {
  const headers: TranscodingResponse["headers"] = { ...answer.headers, "content-encoding": encoding };
  const { etag } = headers;
  if (typeof etag === "string" && !etag.startsWith("W/")) {
    headers["etag"] = `${etag.slice(0, -1)}${etagSuffix(encoding)}"`;
  }
  return headers;
}

/** Not what has a coding already, may not be transformed (RFC 9111, section 5.2.2.6), or is compressed by its kind. */
function mayCompress(headers: TranscodingResponse["headers"]): boolean {
  const { "content-encoding": encoding, "content-type": contentType, "cache-control": cacheControl } = headers;
  return (
    encoding === undefined &&
    typeof contentType === "string" &&
    (contentType === "application/json" ||
      /^text\/|[/+](?:json|xml|(?:x-)?ndjson|jsonl|x-jsonlines|javascript|yaml)$/.test(mediaTypeOf(contentType))) &&
    !(cacheControl !== undefined && /\bno-transform\b/i.test(String(cacheControl)))
  );
}

/** The negotiation of RFC 9110, section 12.5.3. */
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
    // Only a client that weighs it gets identity rather than a coding that it takes.
    encoding: identityWeight !== undefined && identityWeight > bestWeight ? undefined : best,
    identity: (identityWeight ?? any) !== 0,
  };
}
