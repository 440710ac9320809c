import { RequestError } from "../http/request-error.ts";

export type Line = {
  readonly bytes: Uint8Array;
  /** From 1; empty lines count. */
  readonly number: number;
};

const NEWLINE = 0x0a;

/**
 * Cuts a body into lines as it arrives; lines of white space only are skipped, and the last need not end.
 * Throws a RequestError 413 for one that is longer than `maxBytes`, before it is there as a whole.
 */
export async function* readLines(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<Line> {
  let pieces: Uint8Array[] = [];
  let length = 0;
  let number = 1;
  const take = (piece: Uint8Array): void => {
    length += piece.length;
    if (length > maxBytes) {
      throw new RequestError(413, "payload_too_large", `line ${number}: longer than ${maxBytes} bytes`);
    }
    pieces.push(piece);
  };
  const finish = (): Line => {
    const bytes = pieces.length === 1 && pieces[0] !== undefined ? pieces[0] : Buffer.concat(pieces, length);
    const line = { bytes, number };
    pieces = [];
    length = 0;
    number++;
    return line;
  };
  for await (const chunk of body) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      take(chunk.subarray(start, end));
      start = end + 1;
      const line = finish();
      if (!isBlank(line.bytes)) {
        yield line;
      }
    }
    if (start < chunk.length) {
      take(chunk.subarray(start));
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
