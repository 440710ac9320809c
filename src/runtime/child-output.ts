import type { Readable } from "node:stream";
import { createLogBudget, maxLineChars } from "./log-budget.ts";

const newline = 0x0a;

/**
 * Reads the output of a process line by line. It never stops reading, because a full pipe would block the process; output
 * beyond the budget is dropped, and `onFlood` called.
 */
export function readOutput(stream: Readable, onLine: (text: string) => void, onFlood: () => void): void {
  const budget = createLogBudget((bytes) => onLine(`(${bytes} bytes of output were dropped)`));
  /** The incomplete line, up to the maximum length. */
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  /** Whether the rest of the current line is dropped. */
  let isDropping = false;

  function clear(): void {
    pending = [];
    pendingBytes = 0;
  }

  function add(piece: Buffer): void {
    const kept = isDropping ? 0 : Math.min(piece.length, maxLineChars - pendingBytes);
    if (kept > 0) {
      pending.push(piece.subarray(0, kept));
    }
    pendingBytes += kept;
    if (piece.length > kept) {
      budget.countDropped(piece.length - kept);
    }
  }

  function endLine(): void {
    if (pendingBytes > 0) {
      onLine(Buffer.concat(pending).toString("utf8").trimEnd());
    }
    clear();
    isDropping = false;
  }

  stream.on("data", (chunk: Buffer) => {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      if (!budget.take()) {
        // Drops the rest of the chunk at once: counting the lines of a flood would cost more than reading it.
        budget.countDropped(chunk.length - start + pendingBytes);
        clear();
        isDropping = true;
        onFlood();
        return;
      }
      add(chunk.subarray(start, at));
      endLine();
      start = at + 1;
    }
    add(chunk.subarray(start));
  });
  stream.on("end", () => {
    endLine();
    budget.flush();
  });
}
