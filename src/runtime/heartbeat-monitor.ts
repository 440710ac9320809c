import { heartbeatIntervalMs } from "./messages.ts";

export type HeartbeatMonitor = {
  /** Records that the child is responsive. */
  reset(): void;
  stop(): void;
};

/**
 * Calls `tick` at each heartbeat interval with the time since the last heartbeat.
 *
 * Time is counted in ticks of the parent's own event loop instead of read from a clock: after the parent was busy or
 * suspended, heartbeats are still waiting to be read, and the child must not be taken for unresponsive.
 */
export function startHeartbeatMonitor(tick: (heartbeatAgeMs: number) => void): HeartbeatMonitor {
  let missedTicks = 0;
  const timer = setInterval(() => {
    missedTicks += 1;
    tick(missedTicks * heartbeatIntervalMs);
  }, heartbeatIntervalMs);

  return {
    reset() {
      missedTicks = 0;
    },
    stop: () => clearInterval(timer),
  };
}
