/** A point in time on two clocks, in milliseconds. It has passed as soon as it has passed on one of them. */
export type Instant = {
  /** That of `process.hrtime`, which all processes of a machine share. It may stand still while the machine is suspended. */
  readonly monotonicMs: number;
  readonly unixMs: number;
};

/** The right to run flows until a deadline, which is extended again and again. */
export type Fence = {
  /** Increases with each change of the replica that runs the flows. */
  readonly token: number;
  deadline(): Instant;
  /** Calls the listener with each new deadline. Disposing ends the subscription. */
  onRenewed(listener: (deadline: Instant) => void): Disposable;
};

export function currentInstant(): Instant {
  return { monotonicMs: monotonicMs(), unixMs: Date.now() };
}

export function addMs({ monotonicMs, unixMs }: Instant, durationMs: number): Instant {
  return { monotonicMs: monotonicMs + durationMs, unixMs: unixMs + durationMs };
}

/** Negative if the instant has passed. */
export function msUntil(instant: Instant): number {
  return Math.min(instant.monotonicMs - monotonicMs(), instant.unixMs - Date.now());
}

/** A line for the watch pipe, which child/watchdog.ts reads. */
export function formatDeadline({ monotonicMs, unixMs }: Instant): string {
  return `${Math.floor(monotonicMs)} ${Math.floor(unixMs)}\n`;
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
