import { FlowgateError } from "@flowgate/flows/errors";

/**
 * Sequence numbers of events are increasing, also across restarts of the service: the first one of a process is the time, in
 * units of which there are 4,096 in a millisecond.
 */
const unitsPerMs = 4_096;

/** Replicas begin each millisecond with different numbers, so that their events rarely share one. */
export const maxOffset = unitsPerMs / 2;

/** The number of the first event after `previous`. */
export function nextSeq(previous: number, nowMs: number, offset = 0): number {
  return Math.max(previous + 1, nowMs * unitsPerMs + offset);
}

/** The `id` of an event. */
export function formatPosition(seq: number): string {
  return seq.toString(36);
}

/** Throws `invalid_argument`; `field` is the field set by the client. */
export function parsePosition(text: string, field: string): number {
  const seq = /^[0-9a-z]{1,11}$/.test(text) ? Number.parseInt(text, 36) : Number.NaN;
  if (!Number.isSafeInteger(seq)) {
    throw new FlowgateError("invalid_argument", `${field}: must be the id of an event`);
  }
  return seq;
}

/** The position of a time: events that were published then, or later, come after it. */
export function positionBefore(timeMs: number): number {
  return Math.max(0, timeMs * unitsPerMs - 1);
}

/** By how much the clocks of replicas may differ. */
const clockSkewMs = 60_000;

/** The position of the last event that a replica may have published by now. */
export function latestSeq(nowMs: number): number {
  return positionBefore(nowMs + clockSkewMs);
}
