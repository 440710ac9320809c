const sampleMs = 100;

/** Reports whether the event loop is overloaded, until it is disposed. */
export interface EventLoopWatch extends Disposable {
  isBehind(): boolean;
}

/** Measures how late a periodic timer fires; `limitMs` as in `createDelayMeter`. */
export function watchEventLoop(limitMs: number): EventLoopWatch {
  const isBehind = createDelayMeter(limitMs);
  let sampledMs = performance.now();
  let behind = false;
  const timer = setInterval(() => {
    const nowMs = performance.now();
    behind = isBehind(nowMs - sampledMs - sampleMs);
    sampledMs = nowMs;
  }, sampleMs);
  timer.unref();
  return { isBehind: () => behind, [Symbol.dispose]: () => clearInterval(timer) };
}

/**
 * Takes a series of delays, and returns whether they are too long: from when their moving average exceeds the limit
 * until it falls below half of it.
 *
 * A single delay never exceeds the limit, whatever its length, since a large deployment or a suspended machine is not
 * overload.
 */
export function createDelayMeter(limitMs: number): (delayMs: number) => boolean {
  // Samples are capped at twice the limit, so a single one can't raise the average from zero to the limit.
  const weight = 0.4;
  let smoothedMs = 0;
  let behind = false;
  return (delayMs) => {
    smoothedMs += weight * (Math.min(Math.max(delayMs, 0), 2 * limitMs) - smoothedMs);
    behind = smoothedMs > (behind ? limitMs / 2 : limitMs);
    return behind;
  };
}
