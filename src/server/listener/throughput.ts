import type { ListenerLimits } from "./options.ts";

/** Since when too little has moved, and how much had moved by then. */
export type ThroughputWindow = { startMs: number; bytes: number };

/** Judges how fast something moves. A window starts anew as soon as enough has moved in it. */
export type ThroughputMonitor = {
  /** `bytes` is all that ever moved. */
  isTooSlow(window: ThroughputWindow, bytes: number, nowMs: number): boolean;
  /** Nothing is waited for, or not for the client. */
  rest(window: ThroughputWindow, bytes: number, nowMs: number): void;
};

export function createThroughputMonitor({
  stallTimeoutMs,
  minBytesPerSecond,
}: Pick<ListenerLimits, "stallTimeoutMs" | "minBytesPerSecond">): ThroughputMonitor {
  const least = Math.max(1, Math.floor((minBytesPerSecond * stallTimeoutMs) / 1_000));
  const rest: ThroughputMonitor["rest"] = (window, bytes, nowMs) => {
    window.startMs = nowMs;
    window.bytes = bytes;
  };
  return {
    isTooSlow(window, bytes, nowMs) {
      if (bytes - window.bytes >= least) {
        rest(window, bytes, nowMs);
        return false;
      }
      return nowMs - window.startMs >= stallTimeoutMs;
    },
    rest,
  };
}
