import type { Readable } from "node:stream";

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

export type LogBudget = {
  /** Takes one line from the budget; false if it is used up. */
  take(): boolean;
  /** Adds to what is reported as dropped, in lines or bytes. */
  countDropped(amount: number): void;
  /** Reports immediately what was dropped since the last report. */
  flush(): void;
};

/**
 * Limits the number of lines per time window, so that a flow that logs in a loop does not use up the parent's time or the
 * child's memory. The default is far more than a person reads and far less than a process can write.
 */
export function createLogBudget(
  report: (dropped: number) => void,
  { lines, windowMs } = { lines: 1_000, windowMs: 5_000 },
): LogBudget {
  let remaining = lines;
  let windowStartMs = performance.now();
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    if (dropped > 0) {
      report(dropped);
    }
    dropped = 0;
  }

  return {
    take() {
      const nowMs = performance.now();
      if (nowMs - windowStartMs >= windowMs) {
        windowStartMs = nowMs;
        remaining = lines;
      }
      if (remaining === 0) {
        return false;
      }
      remaining -= 1;
      return true;
    },
    countDropped(amount) {
      dropped += amount;
      timer ??= setTimeout(flush, windowMs).unref();
    },
    flush,
  };
}

/** Longer lines are truncated. */
export const maxLineChars = 8192;
