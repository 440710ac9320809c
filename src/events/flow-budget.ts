import type { EventCase } from "./events.ts";

type Rate = { readonly perSecond: number; readonly burst: number };

/** The publication limits for events of one kind, and for their characters. */
export type Rates = { readonly events: Rate; readonly chars: Rate };

/** A status is the last of several, and short. When flows start, each of their nodes can set one. */
const statusRates: Rates = {
  events: { perSecond: 1_000, burst: 10_000 },
  chars: { perSecond: 256 * 1024, burst: 2 * 1024 * 1024 },
};

const otherRates: Rates = {
  events: { perSecond: 200, burst: 2_000 },
  chars: { perSecond: 256 * 1024, burst: 8 * 1024 * 1024 },
};

/** Limits the events caused by flows, each kind on its own, so that a flood of debug messages hides no errors. */
export class FlowBudget {
  readonly #rates: Rates | undefined;
  readonly #now: () => number;
  readonly #buckets = new Map<EventCase, { readonly events: Bucket; readonly chars: Bucket }>();

  /** `rates` apply to every kind. */
  constructor(rates?: Rates, now = () => performance.now()) {
    this.#rates = rates;
    this.#now = now;
  }

  /** Takes an event of so many characters; false if it is too much. */
  take(kind: EventCase, chars: number): boolean {
    const buckets = this.#buckets.getOrInsertComputed(kind, () => {
      const rates = this.#rates ?? (kind === "nodeStatus" ? statusRates : otherRates);
      return { events: new Bucket(rates.events, this.#now), chars: new Bucket(rates.chars, this.#now) };
    });
    return buckets.events.take(1) && buckets.chars.take(chars);
  }
}

class Bucket {
  readonly #rate: Rate;
  readonly #now: () => number;
  #left: number;
  #atMs: number;

  constructor(rate: Rate, now: () => number) {
    this.#rate = rate;
    this.#now = now;
    this.#left = rate.burst;
    this.#atMs = now();
  }

  take(amount: number): boolean {
    const nowMs = this.#now();
    const { perSecond, burst } = this.#rate;
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#atMs) / 1_000) * perSecond);
    this.#atMs = nowMs;
    if (this.#left < amount) {
      return false;
    }
    this.#left -= amount;
    return true;
  }
}
