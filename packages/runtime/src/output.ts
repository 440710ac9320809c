import type { Readable } from "node:stream";

const newline = 0x0a;

/** `isCut`: the line may have been longer. */
export type OnLine = (text: string, isCut: boolean) => void;

/**
 * Reads the output of a process line by line. It never stops reading, because a full pipe would block the process; output
 * beyond the budget is dropped, and `onFlood` called.
 */
export function readOutput(stream: Readable, onLine: OnLine, onFlood: () => void): void {
  const budget = new LogBudget((bytes) => onLine(`(${bytes} bytes of output were dropped)`, false), outputLimits);
  /** The incomplete line, up to the maximum length. */
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  /** True if the rest of the current line is dropped. */
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

  function endLine(isCut = pendingBytes >= maxLineChars): void {
    if (pendingBytes > 0) {
      onLine(Buffer.concat(pending).toString("utf8").trimEnd(), isCut);
    }
    clear();
    isDropping = false;
  }

  stream.on("data", (chunk: Buffer) => {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      if (!budget.take(Math.min(at - start + pendingBytes, maxLineChars))) {
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
    endLine(true);
    budget.flush();
  });
}

const defaultLimits = { lines: 1_000, bytes: Infinity, windowMs: 5_000 };

/** A line is searched for the values of credentials, which can take a microsecond for each byte of it. */
const outputLimits = { bytes: 1024 * 1024 };

/**
 * Limits the number of lines per time window, and of their bytes, so that a flow that logs in a loop does not use up the parent's time or the
 * child's memory. The default is far more than a person reads and far less than a process can write.
 */
export class LogBudget {
  readonly #report: (dropped: number) => void;
  readonly #limits: typeof defaultLimits;
  #lines = 0;
  #bytes = 0;
  #windowStartMs = performance.now();
  #dropped = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `report` is called with the number of lines or bytes that were dropped, at most once per time window. */
  constructor(report: (dropped: number) => void, limits: Partial<typeof defaultLimits> = {}) {
    this.#report = report;
    this.#limits = { ...defaultLimits, ...limits };
  }

  /** Takes one line from the budget; false if it is used up. */
  take(bytes = 0): boolean {
    const { lines, windowMs, bytes: maxBytes } = this.#limits;
    const nowMs = performance.now();
    if (nowMs - this.#windowStartMs >= windowMs) {
      this.#windowStartMs = nowMs;
      this.#lines = 0;
      this.#bytes = 0;
    }
    if (this.#lines >= lines || this.#bytes + bytes > maxBytes) {
      return false;
    }
    this.#lines += 1;
    this.#bytes += bytes;
    return true;
  }

  /** Adds to what is reported as dropped, in lines or bytes. */
  countDropped(amount: number): void {
    this.#dropped += amount;
    this.#timer ??= setTimeout(() => this.flush(), this.#limits.windowMs).unref();
  }

  /** Reports immediately what was dropped since the last report. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#dropped > 0) {
      this.#report(this.#dropped);
    }
    this.#dropped = 0;
  }
}

/** Longer lines are truncated. */
export const maxLineChars = 8192;
