export type BackOffLimits = {
  /** Before the first restart; doubles with each short life up to the maximum. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** A life that ran flows for less is a short one. */
  readonly shortLifeMs: number;
  /** After so many in a row the flows are held back. */
  readonly safeModeAfter: number;
};

export type BackOff = {
  /**
   * A child that ran flows for so long is gone: when shall the next one start, and shall flows be held
   * back? They are never for one that had none: something else ended it, and that may pass.
   */
  died(life: { readonly ranMs: number; readonly hadFlows: boolean }): {
    readonly delayMs: number;
    readonly isCrashLoop: boolean;
  };
  /** There is something new to try. */
  reset(): void;
};

export function createBackOff(limits: BackOffLimits): BackOff {
  let shortLives = 0;
  /** Of them, those that had flows. */
  let crashes = 0;

  return {
    died({ ranMs, hadFlows }) {
      if (ranMs >= limits.shortLifeMs) {
        shortLives = 0;
        crashes = 0;
      }
      shortLives += 1;
      if (hadFlows) crashes += 1;
      return {
        delayMs: Math.min(limits.backoffMs * 2 ** (shortLives - 1), limits.maxBackoffMs),
        isCrashLoop: crashes >= limits.safeModeAfter,
      };
    },
    reset() {
      shortLives = 0;
      crashes = 0;
    },
  };
}
