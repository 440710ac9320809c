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

/** The coding that a request's body has; undefined: none. Throws a RequestError 415 for one that is not understood. */
function codingOf(request: TranscodingRequest): Coding | undefined {
  const encoding = request.headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity" || encoding === "") {
    return undefined;
  }
  const coding = codings.get(encoding);
  if (coding === undefined) {
    // RFC 9110, section 15.5.16: Accept-Encoding tells what would have been taken.
    throw new RequestError(415, "unsupported_media_type", "the Content-Encoding must be one of gzip, br, zstd", {
      headers: { "accept-encoding": "gzip, br, zstd" },
    });
  }
  return coding;
}

/** The whole body, decompressed as its Content-Encoding says; `maxBytes` holds before and after. */
export function readDecoded(request: TranscodingRequest, maxBytes: number): Promise<Uint8Array> {
  const coding = codingOf(request);
  const body = request.readBody(maxBytes);
  return coding === undefined ? body : decode(body, coding, maxBytes);
}

async function decode(body: Promise<Uint8Array>, coding: Coding, maxBytes: number): Promise<Uint8Array> {
  const bytes = await body;
  try {
    return await coding.decompress(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    if (error instanceof RangeError) {
      throw new RequestError(413, "payload_too_large", `the body is larger than ${maxBytes} bytes, decompressed`);
    }
    throw new RequestError(400, "invalid_encoding", "the body is not what its Content-Encoding says");
  }
}

/** The body as it arrives, decompressed; who reads limits what it keeps. Throws a RequestError before it reads anything. */
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
    // A body that did not arrive says so itself.
    throw failure ?? new RequestError(400, "invalid_encoding", "the body is not what its Content-Encoding says");
  } finally {
    source.destroy();
    stream.destroy();
  }
}
