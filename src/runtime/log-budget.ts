export type LogBudget = {
  /** Whether one more line may pass now. */
  pass(): boolean;
  /** Counts what did not pass, in whatever unit its owner tells it. */
  drop(amount: number): void;
  /** Tells at once what was dropped and not told yet. */
  end(): void;
};

/**
 * So many lines in each window of time: a flow that logs in a loop must cost neither the parent's time
 * nor the child's memory. It is far more than a person reads, and far less than a process can write.
 */
export function createLogBudget(
  tell: (dropped: number) => void,
  { lines, windowMs } = { lines: 1_000, windowMs: 5_000 },
): LogBudget {
  let left = lines;
  let startedAtMs = performance.now();
  let dropped = 0;
  let timer: NodeJS.Timeout | undefined;

  function tellNow(): void {
    clearTimeout(timer);
    timer = undefined;
    if (dropped > 0) tell(dropped);
    dropped = 0;
  }

  return {
    pass() {
      const nowMs = performance.now();
      if (nowMs - startedAtMs >= windowMs) {
        startedAtMs = nowMs;
        left = lines;
      }
      if (left === 0) return false;
      left -= 1;
      return true;
    },
    drop(amount) {
      dropped += amount;
      timer ??= setTimeout(tellNow, windowMs).unref();
    },
    end: tellNow,
  };
}

/** Longer lines are cut. */
export const maxLineChars = 8192;
