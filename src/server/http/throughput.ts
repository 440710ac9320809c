import type { Server, Socket } from "node:net";
import type { ListenerLimits } from "./listener-options.ts";

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

type Handle = { readonly bytesWritten?: unknown; readonly writeQueueSize?: unknown };

/**
 * The bytes that the operating system has accepted for sending, and those still queued in the process. During a write
 * of many MB, Node's public properties change only after the last byte, so the internal handle of the socket is read.
 *
 * `socket` must be the accepted TCP socket, also with TLS.
 */
export function readSocketProgress(socket: Socket): { readonly sentBytes: number; readonly unsentBytes: number } {
  const { bytesWritten, writeQueueSize } = (socket as Socket & { readonly _handle?: Handle | null })._handle ?? {};
  return typeof bytesWritten === "number" && typeof writeQueueSize === "number"
    ? { sentBytes: bytesWritten - writeQueueSize, unsentBytes: writeQueueSize }
    : { sentBytes: socket.bytesWritten, unsentBytes: 0 };
}

/** True if this Node version has the internals that `readSocketProgress` reads, without which stalled responses go undetected. */
export function canReadSocketProgress(listening: Server): boolean {
  const { _handle: handle } = listening as Server & { readonly _handle?: object | null };
  return !handle || ("bytesWritten" in handle && "writeQueueSize" in handle);
}
