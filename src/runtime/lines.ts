const newline = 0x0a;

export type LineEvents = {
  readonly line: (text: string) => void;
  /** Once: nothing is read after it. */
  readonly tooLong: () => void;
};

/** Puts together the lines of a byte stream, whose chunks are to be passed to what it returns. */
export function createLineReader(maxLineBytes: number, events: LineEvents): (chunk: Buffer) => void {
  let begun: Buffer[] = [];
  let begunBytes = 0;
  let isTooLong = false;

  function add(piece: Buffer): void {
    begun.push(piece);
    begunBytes += piece.length;
    if (begunBytes <= maxLineBytes) return;
    isTooLong = true;
    begun = [];
    events.tooLong();
  }

  return (chunk) => {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1 && !isTooLong; at = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, at));
      if (isTooLong) return;
      const text = Buffer.concat(begun).toString("utf8");
      begun = [];
      begunBytes = 0;
      start = at + 1;
      events.line(text);
    }
    if (start < chunk.length && !isTooLong) add(chunk.subarray(start));
  };
}
