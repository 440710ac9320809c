import { heartbeatIntervalMs } from "./messages.ts";

export type HeartbeatMonitor = { heard(): void; stop(): void };

/**
 * Tells with each beat that is due how long the child has been silent.
 *
 * Time is counted in ticks of the parent's own loop, not read from a clock: a parent that was itself
 * busy, or suspended, has beats waiting to be read and must not take the child for dead.
 */
export function startHeartbeatMonitor(tick: (silentMs: number) => void): HeartbeatMonitor {
  let silentTicks = 0;
  const timer = setInterval(() => {
    silentTicks += 1;
    tick(silentTicks * heartbeatIntervalMs);
  }, heartbeatIntervalMs);

  return {
    heard() {
      silentTicks = 0;
    },
    stop: () => clearInterval(timer),
  };
}
