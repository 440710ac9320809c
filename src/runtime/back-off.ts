export type BackOffLimits = {
  readonly restartDelayMs: number;
  readonly maxRestartDelayMs: number;
  readonly healthyAfterMs: number;
  readonly maxShortLives: number;
};

export type BackOff = {
  /** A child that ran flows for so long is gone: when shall the next one start, and shall flows be held back? */
  died(ranMs: number): { readonly delayMs: number; readonly isCrashLoop: boolean };
  /** There is something new to try. */
  reset(): void;
};

export function createBackOff(limits: BackOffLimits): BackOff {
  let shortLives = 0;

  return {
    died(ranMs) {
      shortLives = ranMs < limits.healthyAfterMs ? shortLives + 1 : 1;
      return {
        delayMs: Math.min(limits.restartDelayMs * 2 ** (shortLives - 1), limits.maxRestartDelayMs),
        isCrashLoop: shortLives >= limits.maxShortLives,
      };
    },
    reset() {
      shortLives = 0;
    },
  };
}
