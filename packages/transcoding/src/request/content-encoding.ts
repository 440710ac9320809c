import { Readable, type Duplex } from "node:stream";
import { promisify } from "node:util";
import {
  brotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createZstdDecompress,
  gunzip,
  zstdDecompress,
} from "node:zlib";
import { RequestError } from "../http/request-error.ts";
import type { TranscodingRequest } from "../http/request.ts";
import { decompressInSteps } from "./decompress-in-steps.ts";

type Coding = {
  readonly decompress: (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>;
  readonly createStream: () => Duplex;
};

const gzip: Coding = { decompress: promisify(gunzip) as Coding["decompress"], createStream: createGunzip };

const codings: ReadonlyMap<string, Coding> = new Map([
  ["gzip", gzip],
  ["x-gzip", gzip],
  ["br", { decompress: promisify(brotliDecompress) as Coding["decompress"], createStream: createBrotliDecompress }],
  ["zstd", { decompress: promisify(zstdDecompress) as Coding["decompress"], createStream: createZstdDecompress }],
]);

/** The content coding of a request; undefined for none. Throws a RequestError of status 415 if it is not supported. */
function codingOf(request: TranscodingRequest): Coding | undefined {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") {
    return undefined;
  }
  const coding = codings.get(encoding);
  if (coding === undefined) {
    // RFC 9110, section 15.5.16: Accept-Encoding lists the supported codings.
    throw new RequestError(415, "unsupported_media_type", "the Content-Encoding must be one of gzip, br, zstd", {
      headers: { "accept-encoding": "gzip, br, zstd" },
    });
  }
  return coding;
}

/** Reads the whole body and decompresses it. `maxBytes` limits the size before and after decompression. */
export function readDecoded(request: TranscodingRequest, maxBytes: number): Promise<Uint8Array> {
  const coding = codingOf(request);
  const body = request.readBody(maxBytes);
  return coding === undefined ? body : decode(body, coding, maxBytes, request);
}

async function decode(
  body: Promise<Uint8Array>,
  coding: Coding,
  maxBytes: number,
  request: TranscodingRequest,
): Promise<Uint8Array> {
  const bytes = await body;
  const decompress = async (maxOutputLength: number): Promise<Uint8Array> => {
    try {
      return await coding.decompress(bytes, { maxOutputLength });
    } catch (error) {
      throw error instanceof RangeError
        ? error
        : new RequestError(400, "invalid_encoding", "the body does not match its Content-Encoding");
    }
  };
  try {
    return await decompressInSteps(decompress, maxBytes, request);
  } catch (error) {
    throw error instanceof RangeError
      ? new RequestError(413, "payload_too_large", `the body is larger than ${maxBytes} bytes, decompressed`)
      : error;
  }
}

/**
 * Streams the decompressed body. The caller must limit the size. Throws a RequestError of status 415, before reading,
 * if the coding is not supported.
 */
export function streamDecoded(request: TranscodingRequest): AsyncIterable<Uint8Array> {
  const coding = codingOf(request);
  return coding === undefined ? request.streamBody() : decompressStream(request.streamBody(), coding.createStream());
}

async function* decompressStream(body: AsyncIterable<Uint8Array>, stream: Duplex): AsyncGenerator<Uint8Array> {
  const source = Readable.from(body, { objectMode: false });
  let failure: unknown;
  source.on("error", (error) => {
    failure = error;
    stream.destroy(error);
  });
  try {
    yield* source.pipe(stream) as AsyncIterable<Uint8Array>;
  } catch {
    // An error of the source takes precedence over the decompression error that it causes.
    throw failure ?? new RequestError(400, "invalid_encoding", "the body does not match its Content-Encoding");
  } finally {
    source.destroy();
    stream.destroy();
  }
}
