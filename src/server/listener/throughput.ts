import type { ListenerLimits } from "./options.ts";

/** A measurement: its start, and the total number of bytes transferred by then. */
export type ThroughputWindow = { startMs: number; bytes: number };

/** Compares transfer rates with the minimum. A window restarts as soon as enough bytes were transferred in it. */
export type ThroughputMonitor = {
  /** `bytes` is the total number of bytes transferred so far. */
  isTooSlow(window: ThroughputWindow, bytes: number, nowMs: number): boolean;
  /** Restarts the window, since no transfer is pending or the client is not the one that delays it. */
  reset(window: ThroughputWindow, bytes: number, nowMs: number): void;
};

export function createThroughputMonitor({
  stallTimeoutMs,
  minBytesPerSecond,
}: Pick<ListenerLimits, "stallTimeoutMs" | "minBytesPerSecond">): ThroughputMonitor {
  const minWindowBytes = Math.max(1, Math.floor((minBytesPerSecond * stallTimeoutMs) / 1_000));
  const reset: ThroughputMonitor["reset"] = (window, bytes, nowMs) => {
    window.startMs = nowMs;
    window.bytes = bytes;
  };
  return {
    isTooSlow(window, bytes, nowMs) {
      if (bytes - window.bytes >= minWindowBytes) {
        reset(window, bytes, nowMs);
        return false;
      }
      return nowMs - window.startMs >= stallTimeoutMs;
    },
    reset,
  };
}
