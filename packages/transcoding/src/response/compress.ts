import { finished, type Transform } from "node:stream";
import { constants, createBrotliCompress, createGzip, createZstdCompress } from "node:zlib";
import type { ContentEncoding } from "../http/content-coding.ts";

/**
 * They flush each write: what was written can be read at the other end, whatever comes later. A stream may last for
 * days, and there may be many: with small windows and tables each holds a quarter to a third of the memory, and messages are
 * hardly longer for it.
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
 * Compresses a body piece by piece. Nothing is asked of `body` before the last piece was taken, and `return`
 * reaches it at once, even while a piece is awaited. Where `body` fails, the compressed one fails without its end. What
 * the compression holds is allocated for the first piece, and freed however it ends.
 */
export function compressPieces(
  body: AsyncIterable<string | Uint8Array>,
  encoding: ContentEncoding,
): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const source = body[Symbol.asyncIterator]();
      let compression: Compression | undefined;
      let isOver = false;
      const close = (): void => {
        isOver = true;
        compression?.free();
      };
      /** Undefined: it was left meanwhile. */
      const read = async (): Promise<Uint8Array | undefined> => {
        for (;;) {
          const { done, value } = await source.next();
          if (isOver) {
            return undefined;
          }
          compression ??= openCompression(encoding);
          if (done === true) {
            const last = await compression.end();
            isOver = true;
            return last;
          }
          // Flushed, it would be bytes that say nothing.
          if (value.length > 0) {
            return compression.write(value);
          }
        }
      };
      return {
        async next() {
          try {
            const value = isOver ? undefined : await read();
            return value === undefined ? { done: true, value } : { done: false, value };
          } catch (error) {
            if (isOver) {
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
  /** What these bytes became, all of it. */
  write(piece: string | Uint8Array): Promise<Uint8Array>;
  /** The last bytes. It is free then. */
  end(): Promise<Uint8Array>;
  free(): void;
};

function openCompression(encoding: ContentEncoding): Compression {
  const stream = compressors[encoding]();
  let compressed: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => compressed.push(chunk));
  // Who waits is told by the callback.
  stream.on("error", () => {});
  /** A write, or the end, calls back when all that it made was given out. */
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
    write: (piece) => collect((callback) => stream.write(piece, callback)),
    // That all was written is said before the last bytes are made.
    end: () => collect((callback) => finished(stream.end(), callback)),
    free: () => stream.destroy(),
  };
}
