import { beatEveryMs } from "./messages.ts";

export type SilenceWatch = { heard(): void; stop(): void };

/**
 * Tells with each beat that is due how long the child has been silent.
 *
 * Time is counted in ticks of the parent's own loop, not read from a clock: a parent that was itself
 * busy, or suspended, has beats waiting to be read and must not take the child for dead.
 */
export function watchSilence(tick: (silentMs: number) => void): SilenceWatch {
  let silentTicks = 0;
  const timer = setInterval(() => {
    silentTicks += 1;
    tick(silentTicks * beatEveryMs);
  }, beatEveryMs);

  return {
    heard() {
      silentTicks = 0;
    },
    stop: () => clearInterval(timer),
  };
}
