import { finished, Readable, type Duplex, type Transform } from "node:stream";
import { promisify } from "node:util";
import {
  brotliCompress,
  brotliDecompress,
  constants,
  createBrotliCompress,
  createBrotliDecompress,
  createGunzip,
  createGzip,
  createZstdCompress,
  createZstdDecompress,
  gunzip,
  gzip,
  zstdCompress,
  zstdDecompress,
} from "node:zlib";
import type { StreamCompression, ContentEncoding } from "../compression.ts";

/** The content codings that this runtime supports, in the order of preference for responses. */
export const contentEncodings: readonly ContentEncoding[] = ["zstd", "br", "gzip"];

const compressBrotli = promisify(brotliCompress);

/** Brotli has quality 4, at which it is about as fast as gzip; the others their defaults. All run in libuv's thread pool. */
const compressors: Readonly<Record<ContentEncoding, (bytes: Uint8Array) => Promise<Uint8Array>>> = {
  br: (bytes) => compressBrotli(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
  gzip: promisify(gzip),
  zstd: promisify(zstdCompress),
};

export function compress(bytes: Uint8Array, encoding: ContentEncoding): Promise<Uint8Array> {
  return compressors[encoding](bytes);
}

/**
 * The compressors flush after each write, so that the client can decode each message as it arrives. The windows and tables
 * are small because streams are numerous and long-lived: memory is a quarter to a third of that with the defaults, and
 * the compressed messages are hardly larger.
 */
const streamCompressors: Readonly<Record<ContentEncoding, () => Transform>> = {
  br: () =>
    createBrotliCompress({
      flush: constants.BROTLI_OPERATION_FLUSH,
      params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 17 },
    }),
  gzip: () => createGzip({ flush: constants.Z_SYNC_FLUSH }),
  zstd: () =>
    createZstdCompress({
      flush: constants.ZSTD_e_flush,
      params: { [constants.ZSTD_c_windowLog]: 17, [constants.ZSTD_c_hashLog]: 15, [constants.ZSTD_c_chainLog]: 14 },
    }),
};

/** Opens a compression that flushes after each chunk. Undefined if this runtime has none. */
export const openCompression: ((encoding: ContentEncoding) => StreamCompression) | undefined = (encoding) => {
  const stream = streamCompressors[encoding]();
  let compressed: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => compressed.push(chunk));
  // Errors are reported through the callbacks.
  stream.on("error", () => {});
  /** `start` calls back after all of its output was emitted. */
  const collect = (start: (callback: (error?: Error | null) => void) => void): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      start((error) => {
        if (error) {
          reject(error);
          return;
        }
        const [only] = compressed;
        resolve(compressed.length === 1 && only !== undefined ? only : Buffer.concat(compressed));
        compressed = [];
      });
    });
  return {
    write: (chunk) => collect((callback) => stream.write(chunk, callback)),
    // The callback of `end` itself runs before the final bytes are emitted.
    end: () => collect((callback) => finished(stream.end(), callback)),
    free: () => stream.destroy(),
  };
};

/** A decompressor that counts the bytes that it has consumed. */
type Consumer = { readonly bytesWritten: number };

type Decompress = (
  bytes: Uint8Array,
  options: { maxOutputLength: number; info: true },
) => Promise<{ buffer: Uint8Array; engine: Consumer }>;

const decompressors: Readonly<Record<ContentEncoding, Decompress>> = {
  br: promisify(brotliDecompress) as unknown as Decompress,
  gzip: promisify(gunzip) as unknown as Decompress,
  zstd: promisify(zstdDecompress) as unknown as Decompress,
};

/** Decompresses a body. Rejects with a RangeError if it is longer than `maxBytes`, and with another error if it is invalid. */
export async function decompress(bytes: Uint8Array, encoding: ContentEncoding, maxBytes: number): Promise<Uint8Array> {
  const { buffer, engine } = await decompressors[encoding](bytes, { maxOutputLength: maxBytes, info: true });
  assertConsumed(engine, encoding, bytes.length);
  return buffer;
}

/**
 * zlib ignores bytes after the end of br and zstd. After the end of gzip it rejects all but zeros, which are padding.
 */
function assertConsumed({ bytesWritten }: Consumer, encoding: ContentEncoding, length: number): void {
  if (encoding !== "gzip" && bytesWritten !== length) {
    throw new Error("unexpected bytes after the end of the compressed data");
  }
}

const streamDecompressors: Readonly<Record<ContentEncoding, () => Duplex & Consumer>> = {
  br: createBrotliDecompress,
  gzip: createGunzip,
  zstd: createZstdDecompress,
};

/** Decompresses a streamed body. Rethrows an error of the body; throws `invalid()` if the compressed data is invalid. */
export async function* decompressStream(
  body: AsyncIterable<Uint8Array>,
  encoding: ContentEncoding,
  invalid: () => Error,
): AsyncGenerator<Uint8Array> {
  let length = 0;
  const source = Readable.from(body, { objectMode: false }).on("data", (chunk: Buffer) => {
    length += chunk.length;
  });
  const stream = streamDecompressors[encoding]();
  let failure: unknown;
  source.on("error", (error) => {
    failure = error;
    stream.destroy(error);
  });
  try {
    yield* source.pipe(stream) as AsyncIterable<Uint8Array>;
    assertConsumed(stream, encoding, length);
  } catch {
    // An error of the source takes precedence over the decompression error that it causes.
    throw failure ?? invalid();
  } finally {
    source.destroy();
    stream.destroy();
  }
}
