import type { Readable } from "node:stream";
import { createLogBudget, maxLineChars } from "./log-budget.ts";

const newline = 0x0a;

/**
 * Reads what a process writes, line by line. It never stops reading, for a full pipe would block the
 * process; what is beyond the budget is dropped unread.
 */
export function readOutput(stream: Readable, line: (text: string) => void): void {
  const budget = createLogBudget((bytes) => line(`(${bytes} bytes of output were dropped)`));
  /** The line that has not ended yet, as much of it as will be told. */
  let begun: Buffer[] = [];
  let begunBytes = 0;
  /** Inside a line of which nothing will be told. */
  let isDropping = false;

  function add(piece: Buffer): void {
    const kept = isDropping ? 0 : Math.min(piece.length, maxLineChars - begunBytes);
    if (kept > 0) begun.push(piece.subarray(0, kept));
    begunBytes += kept;
    if (piece.length > kept) budget.drop(piece.length - kept);
  }

  function end(): void {
    if (begunBytes > 0) line(Buffer.concat(begun).toString("utf8").trimEnd());
    begun = [];
    begunBytes = 0;
    isDropping = false;
  }

  stream.on("data", (chunk: Buffer) => {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      if (!budget.pass()) {
        // No further line is looked for: to count a flood's lines would cost more than to read it.
        budget.drop(chunk.length - start + begunBytes);
        begun = [];
        begunBytes = 0;
        isDropping = true;
        return;
      }
      add(chunk.subarray(start, at));
      end();
      start = at + 1;
    }
    add(chunk.subarray(start));
  });
  stream.on("end", () => {
    end();
    budget.end();
  });
}
