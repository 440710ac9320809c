import { create } from "@bufbuild/protobuf";
import { type Event, EventSchema } from "@flowgate/client";
import { keyOf } from "./log-line.ts";

export const maxEntries = 5_000;

export type Snapshot = {
  /** Newest first. */
  readonly shown: readonly Event[];
  readonly held: number;
};

/**
 * The events of a page, newest first, limited in number. New events can be held back, so that the visible ones do not
 * move.
 */
export class LogBuffer {
  #shown: readonly Event[] = [];
  /** Oldest first. */
  #held: Event[] = [];
  #lost = 0;
  #isHolding = false;
  #keys = new Set<string>();
  #snapshot: Snapshot = { shown: [], held: 0 };

  /** The same object as long as nothing has changed. */
  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** Adds new events, oldest first. */
  add(events: readonly Event[]): void {
    for (const event of events) {
      if (!this.#keys.has(keyOf(event))) {
        this.#keys.add(keyOf(event));
        this.#held.push(event);
      }
    }
    if (this.#isHolding) {
      this.#limitHeld();
      this.#snapshot = { shown: this.#shown, held: this.#held.length + this.#lost };
    } else {
      this.#show();
    }
  }

  /** Adds earlier events, newest first, as far as there is room. Returns how many were not known. */
  addEarlier(events: readonly Event[]): number {
    const added = events
      .filter((event) => !this.#keys.has(keyOf(event)))
      .slice(0, Math.max(maxEntries - this.#shown.length, 0));
    added.forEach((event) => this.#keys.add(keyOf(event)));
    this.#shown = [...this.#shown, ...added];
    this.#snapshot = { ...this.#snapshot, shown: this.#shown };
    return added.length;
  }

  /** Holds back what arrives, or shows it again. */
  hold(isHolding: boolean): void {
    this.#isHolding = isHolding;
    if (!isHolding) {
      this.#show();
    }
  }

  #show(): void {
    if (this.#held.length > 0) {
      const missing = this.#lost === 0 ? [] : [toMissing(this.#held[0] as Event, this.#lost)];
      const all = [...this.#held.toReversed(), ...missing, ...this.#shown];
      this.#shown = all.slice(0, maxEntries);
      all.slice(maxEntries).forEach((event) => this.#keys.delete(keyOf(event)));
      this.#held = [];
      this.#lost = 0;
    }
    this.#snapshot = { shown: this.#shown, held: 0 };
  }

  #limitHeld(): void {
    // One entry stands for the removed ones.
    const excess = this.#held.length - (maxEntries - 1);
    if (excess > 0) {
      this.#held.splice(0, excess).forEach((event) => this.#keys.delete(keyOf(event)));
      this.#lost += excess;
    }
  }
}

/** Returns a placeholder for the events before this one that were not kept. */
function toMissing({ id, time, runtime }: Event, count: number): Event {
  return create(EventSchema, {
    id,
    runtime,
    ...(time !== undefined && { time }),
    kind: { case: "dropped", value: { count, reason: "not_kept" } },
  });
}
