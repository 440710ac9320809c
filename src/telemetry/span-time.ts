/** Further apart, the system's clock has been set. */
const toleranceMs = 100;

let originMs = performance.timeOrigin;

/**
 * A reading of `performance.now()` in ms of Unix time, as OpenTelemetry takes it. One clock for all spans: left to
 * themselves, each begins in whole ms of the system's clock, and one may end behind the one that it is a part of.
 */
export function spanTime(readMs: number): number {
  const nowMs = performance.now();
  if (Math.abs(Date.now() - (originMs + nowMs)) > toleranceMs) {
    originMs = Date.now() - nowMs;
  }
  return originMs + readMs;
}
