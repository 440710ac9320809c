const newline = 0x0a;

export type LineEvents = {
  readonly onLine: (text: string) => void;
  /** Called once if a line exceeds the maximum length. Nothing is read after it. */
  readonly onTooLong: () => void;
};

/** Returns a function that takes the chunks of a byte stream and splits them into lines. */
export function createLineReader(maxLineBytes: number, events: LineEvents): (chunk: Buffer) => void {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let isTooLong = false;

  function add(piece: Buffer): void {
    pending.push(piece);
    pendingBytes += piece.length;
    if (pendingBytes <= maxLineBytes) {
      return;
    }
    isTooLong = true;
    pending = [];
    events.onTooLong();
  }

  return (chunk) => {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1 && !isTooLong; at = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, at));
      if (isTooLong) {
        return;
      }
      const text = Buffer.concat(pending).toString("utf8");
      pending = [];
      pendingBytes = 0;
      start = at + 1;
      events.onLine(text);
    }
    if (start < chunk.length && !isTooLong) {
      add(chunk.subarray(start));
    }
  };
}
