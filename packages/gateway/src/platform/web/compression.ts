import type { StreamCompression, ContentEncoding } from "../compression.ts";
import { concatBytes } from "./bytes.ts";

export const contentEncodings: readonly ContentEncoding[] = ["gzip"];

export async function compress(bytes: Uint8Array, _encoding: ContentEncoding): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of transform([bytes], new CompressionStream("gzip"))) {
    chunks.push(chunk);
  }
  return concatBytes(chunks);
}

/** Opens a compression that flushes after each chunk. Undefined if this runtime has none: CompressionStream can't flush. */
export const openCompression: ((encoding: ContentEncoding) => StreamCompression) | undefined = undefined;

/** Decompresses a body. Rejects with a RangeError if it is longer than `maxBytes`, and with another error if it is invalid. */
export async function decompress(bytes: Uint8Array, _encoding: ContentEncoding, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of transform([bytes], new DecompressionStream("gzip"))) {
    length += chunk.length;
    if (length > maxBytes) {
      throw new RangeError("the output is too long");
    }
    chunks.push(chunk);
  }
  return concatBytes(chunks);
}

/** Decompresses a streamed body. Rethrows an error of the body; throws `invalid()` if the compressed data is invalid. */
export async function* decompressStream(
  body: AsyncIterable<Uint8Array>,
  _encoding: ContentEncoding,
  invalid: () => Error,
): AsyncGenerator<Uint8Array> {
  let failure: unknown;
  const recorded = recordError(body, (error) => {
    failure = error;
  });
  try {
    yield* transform(recorded, new DecompressionStream("gzip"));
  } catch {
    throw failure ?? invalid();
  }
}

async function* recordError<T>(items: AsyncIterable<T>, record: (error: unknown) => void): AsyncGenerator<T> {
  try {
    yield* items;
  } catch (error) {
    record(error);
    throw error;
  }
}

type Transformer = {
  readonly writable: WritableStream<Uint8Array<ArrayBuffer>>;
  readonly readable: ReadableStream<Uint8Array>;
};

/** Writes the body while the result is read. Ending the iteration early ends the body's iteration. */
async function* transform(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { writable, readable }: Transformer,
): AsyncGenerator<Uint8Array> {
  const reader = readable.getReader();
  // Its errors reach the reader too.
  writeAll(body, writable.getWriter()).catch(() => {});
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

async function writeAll(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  writer: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>,
): Promise<void> {
  writer.closed.catch(() => {});
  try {
    for await (const chunk of body) {
      await writer.write(chunk as Uint8Array<ArrayBuffer>);
    }
    await writer.close();
  } catch (error) {
    await writer.abort(error);
  }
}
