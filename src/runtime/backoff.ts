export type BackoffLimits = {
  /** Delay before the first restart in milliseconds; doubles with each further one, up to `maxBackoffMs`, until a run is not short. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** A run is short if the child ran flows for less than this. */
  readonly shortLifeMs: number;
  /** The number of consecutive short runs with flows after which the child starts in safe mode, without flows. */
  readonly safeModeAfter: number;
};

export type Backoff = {
  /**
   * Records the unexpected exit of a child that ran flows for `flowsRanMs`, and returns when to start the next one and whether to
   * start it without flows. Only exits with flows count towards a crash loop: any other exit has a cause outside of the flows,
   * which may be temporary.
   */
  recordExit(exit: { readonly flowsRanMs: number; readonly hadFlows: boolean }): {
    readonly delayMs: number;
    readonly isCrashLoop: boolean;
  };
  /** Forgets all recorded exits, because there is a new deployment to try. */
  reset(): void;
};

export function createBackoff(limits: BackoffLimits): Backoff {
  let restarts = 0;
  let shortRuns = 0;

  const reset = (): void => {
    restarts = 0;
    shortRuns = 0;
  };
  return {
    recordExit({ flowsRanMs, hadFlows }) {
      if (flowsRanMs >= limits.shortLifeMs) {
        reset();
      } else if (hadFlows) {
        shortRuns += 1;
      }
      restarts += 1;
      return {
        delayMs: Math.min(limits.backoffMs * 2 ** (restarts - 1), limits.maxBackoffMs),
        isCrashLoop: shortRuns >= limits.safeModeAfter,
      };
    },
    reset,
  };
}
