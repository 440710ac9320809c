import type { Compression } from "../../../platform/compression.ts";

/**
 * Compresses a streamed body chunk by chunk, with backpressure: the next chunk is read when the previous one was
 * consumed. `return` is passed on to `body` immediately, even while a chunk is awaited. An error of `body` is rethrown without
 * completing the compressed data. The compression is opened for the first chunk, and freed when the iteration ends.
 */
export function compressStream(
  body: AsyncIterable<string | Uint8Array>,
  open: () => Compression,
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
