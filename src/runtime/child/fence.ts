import { createHook } from "node:async_hooks";
import type { Instant } from "../fence.ts";

/** A deadline in memory that threads share: in whole milliseconds, the monotonic clock first, then Unix time. */
export type SharedDeadline = BigInt64Array<SharedArrayBuffer>;

export function shareDeadline({ monotonicMs, unixMs }: Instant): SharedDeadline {
  const shared = new BigInt64Array(new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT));
  shared.set([BigInt(Math.floor(monotonicMs)), BigInt(Math.floor(unixMs))]);
  return shared;
}

/**
 * Kills this process before any callback that the event loop would run after the deadline. The watchdog's thread kills it at
 * the deadline, but after this process was suspended, timers and sockets of flows could be ahead of that thread.
 *
 * Promises are not tracked, which would be expensive: their callbacks follow others of the event loop.
 */
export function startFence(shared: SharedDeadline): void {
  // Flows could replace the properties.
  const readHrtime = process.hrtime.bigint.bind(process.hrtime);
  const readMs = performance.now.bind(performance);
  const readUnixMs = Date.now.bind(Date);
  let untilMs = 0;
  let untilUnixMs = 0;

  const check = (): void => {
    if (readMs() < untilMs && readUnixMs() < untilUnixMs) {
      return;
    }
    // `performance.now` is faster, but its origin is the start of this process. Read first, so that a suspension between
    // both clocks makes the deadline earlier.
    const nowMs = readMs();
    const leftMs = Number(Atomics.load(shared, 0)) - Number(readHrtime()) / 1e6;
    untilMs = nowMs + leftMs;
    untilUnixMs = Number(Atomics.load(shared, 1));
    if (leftMs <= 0 || readUnixMs() >= untilUnixMs) {
      process.kill(0, "SIGKILL");
    }
  };

  createHook({ before: check, trackPromises: false }).enable();
  check();
}
