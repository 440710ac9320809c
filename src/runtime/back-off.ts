export type BackOffLimits = {
  /** Delay before the first restart in milliseconds; doubles with each early exit, up to `maxBackoffMs`. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** An exit is early if the child ran flows for less than this. */
  readonly shortLifeMs: number;
  /** The number of consecutive early exits after which the child starts in safe mode, without flows. */
  readonly safeModeAfter: number;
};

export type BackOff = {
  /**
   * Records the exit of a child that ran flows for `flowsRanMs`, and returns when to start the next one and whether to start
   * it without flows. Only exits with flows count towards a crash loop: any other exit has a cause outside of the flows,
   * which may be temporary.
   */
  recordExit(exit: { readonly flowsRanMs: number; readonly hadFlows: boolean }): {
    readonly delayMs: number;
    readonly isCrashLoop: boolean;
  };
  /** Forgets all recorded exits, because there is a new deployment to try. */
  reset(): void;
};

export function createBackOff(limits: BackOffLimits): BackOff {
  let earlyExits = 0;
  /** Those of the early exits that had flows. */
  let crashes = 0;

  return {
    recordExit({ flowsRanMs, hadFlows }) {
      if (flowsRanMs >= limits.shortLifeMs) {
        earlyExits = 0;
        crashes = 0;
      }
      earlyExits += 1;
      if (hadFlows) crashes += 1;
      return {
        delayMs: Math.min(limits.backoffMs * 2 ** (earlyExits - 1), limits.maxBackoffMs),
        isCrashLoop: crashes >= limits.safeModeAfter,
      };
    },
    reset() {
      earlyExits = 0;
      crashes = 0;
    },
  };
}
