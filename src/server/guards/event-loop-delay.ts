const sampleMs = 100;

/** Tells whether the event loop has fallen behind, until it is disposed. */
export interface EventLoopWatch extends Disposable {
  isBehind(): boolean;
}

/** Measures by how much a timer comes late; `limitMs` as of `createDelayMeter`. */
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
 * Takes one delay after another, and tells whether they are too long: from when their smoothed value exceeds the
 * limit, until it has fallen below half of it.
 *
 * One delay alone never is, whatever its length: a large deployment, or a machine that was suspended, is no load.
 */
export function createDelayMeter(limitMs: number): (delayMs: number) => boolean {
  // Of a sample cut to twice the limit, not enough to reach it.
  const weight = 0.4;
  let smoothedMs = 0;
  let behind = false;
  return (delayMs) => {
    smoothedMs += weight * (Math.min(Math.max(delayMs, 0), 2 * limitMs) - smoothedMs);
    behind = smoothedMs > (behind ? limitMs / 2 : limitMs);
    return behind;
  };
}
