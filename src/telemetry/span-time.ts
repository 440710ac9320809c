/** A larger difference between the clocks means that the system clock was set. */
const toleranceMs = 100;

let originMs = performance.timeOrigin;

/**
 * Converts a value of `performance.now()` to Unix time in ms, for OpenTelemetry. All spans share this clock: by default,
 * a span starts at a whole ms of the system clock, so that a child span could end after its parent.
 */
export function spanTime(monotonicMs: number): number {
  const nowMs = performance.now();
  if (Math.abs(Date.now() - (originMs + nowMs)) > toleranceMs) {
    originMs = Date.now() - nowMs;
  }
  return originMs + monotonicMs;
}
