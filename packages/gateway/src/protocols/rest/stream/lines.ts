import { createDocumentCollector, type StreamDocument } from "./document.ts";

const NEWLINE = 0x0a;

/**
 * Splits a streamed body into lines. Blank lines are counted and skipped; the last line may lack a line break. Throws a RequestError
 * of status 413 as soon as a line exceeds `maxBytes`.
 */
export async function* readLines(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<StreamDocument> {
  const { append, finish } = createDocumentCollector("line", maxBytes);
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      append(chunk.subarray(start, end));
      start = end + 1;
      const line = finish();
      if (!isBlank(line.bytes)) {
        yield line;
      }
    }
    if (start < chunk.length) {
      append(chunk.subarray(start));
    }
  }
  const last = finish();
  if (!isBlank(last.bytes)) {
    yield last;
  }
}

function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}
