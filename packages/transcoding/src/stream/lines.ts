import { concatBytes } from "#platform/bytes";
import { RequestError } from "../http/request-error.ts";

export type Line = {
  readonly bytes: Uint8Array;
  /** Counted from 1, including blank lines. */
  readonly number: number;
};

const NEWLINE = 0x0a;

/**
 * Splits a streamed body into lines. Blank lines are skipped; the last line may lack a line break. Throws a RequestError
 * of status 413 as soon as a line exceeds `maxBytes`.
 */
export async function* readLines(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Line> {
  let pieces: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  const append = (piece: Uint8Array): void => {
    length += piece.length;
    if (length > maxBytes) {
      throw new RequestError(413, "payload_too_large", `line ${number}: longer than ${maxBytes} bytes`);
    }
    pieces.push(piece);
  };
  const finish = (): Line => {
    const bytes = pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : concatBytes(pieces);
    const line = { bytes, number };
    pieces = [];
    length = 0;
    number++;
    return line;
  };
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
