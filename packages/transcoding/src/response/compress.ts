import { finished, type Transform } from "node:stream";
import { constants, createBrotliCompress, createGzip, createZstdCompress } from "node:zlib";
import type { ContentEncoding } from "../http/content-coding.ts";

/**
 * The compressors flush after each write, so that the client can decode each message as it arrives. The windows and tables
 * are small because streams are numerous and long-lived: memory is a quarter to a third of that with the defaults, and
 * the compressed messages are hardly larger.
 */
const compressors: Readonly<Record<ContentEncoding, () => Transform>> = {
  br: () =>
    createBrotliCompress({
      flush: constants.BROTLI_OPERATION_FLUSH,
      params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 17 },
    }),
  gzip: () => createGzip({ flush: constants.Z_SYNC_FLUSH }),
  zstd: () =>
    createZstdCompress({
      flush: constants.ZSTD_e_flush,
      params: {
        [constants.ZSTD_c_windowLog]: 17,
        [constants.ZSTD_c_hashLog]: 15,
        [constants.ZSTD_c_chainLog]: 14,
      },
    }),
};

/**
 * Compresses a streamed body chunk by chunk, with backpressure: the next chunk is read when the previous one was
 * consumed. `return` is passed on to `body` immediately, even while a chunk is awaited. An error of `body` is rethrown without
 * completing the compressed data. The compressor is created for the first chunk, and freed when the iteration ends.
 */
export function compressStream(
  body: AsyncIterable<string | Uint8Array>,
  encoding: ContentEncoding,
): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const source = body[Symbol.asyncIterator]();
      let compression: Compression | undefined;
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
          compression ??= openCompression(encoding);
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

type Compression = {
  /** Resolves with the complete compressed form of the chunk. */
  write(chunk: string | Uint8Array): Promise<Uint8Array>;
  /** Resolves with the final bytes, and frees the compressor. */
  end(): Promise<Uint8Array>;
  free(): void;
};

function openCompression(encoding: ContentEncoding): Compression {
  const stream = compressors[encoding]();
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
}
