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
