import type { NodeCounts, NodeRef } from "../node-events.ts";
import type { Activity } from "./activity.ts";

type Counter = {
  readonly id: string;
  messages: number;
  errors: number;
  warnings: number;
  lastMessageMs: number;
  /** That of its activity. */
  readonly number: number;
  /** True if it has changed since it was reported. */
  isChanged: boolean;
};

type CountersOptions = {
  readonly locate: (id: string) => NodeRef;
  readonly activity: Activity;
  /** Called when there is something to report. */
  readonly onChange: () => void;
};

const maxCounters = 20_000;

/** The nodes that are reported at once; the others follow later. */
const maxReported = 100;

/** The time between two reports. */
const reportMs = 1_000;

/** Counts what happens to each node since it was started. */
export class NodeCounters {
  readonly #options: CountersOptions;
  readonly #counters = new Map<string, Counter>();
  #changed: Counter[] = [];
  #reportedMs = 0;
  /** True if a node has its first error or warning, which is reported at once. */
  #isUrgent = false;

  constructor(options: CountersOptions) {
    this.#options = options;
  }

  get isPending(): boolean {
    return this.#changed.length > 0;
  }

  /** Called for each message of the flows. */
  countMessage(id: string): void {
    const counter = this.#counters.get(id) ?? this.#create(id);
    this.#options.activity.set(counter.number);
    counter.messages += 1;
    counter.lastMessageMs = Date.now();
    if (!counter.isChanged) {
      this.#change(counter);
    }
  }

  countError(id: string, isWarning: boolean): void {
    const counter = this.#counters.get(id) ?? this.#create(id);
    this.#isUrgent ||= counter.errors + counter.warnings === 0;
    if (isWarning) {
      counter.warnings += 1;
    } else {
      counter.errors += 1;
    }
    if (!counter.isChanged) {
      this.#change(counter);
    }
  }

  /** The node was stopped. */
  remove(id: string): boolean {
    return this.#counters.delete(id);
  }

  /**
   * Removes and returns what has to be reported now. What is lost of it is part of the next report of the node. `isHeld`: whether a node
   * has to wait.
   */
  take(nowMs: number, isHeld: (id: string) => boolean): NodeCounts[] {
    if (!this.#isUrgent && nowMs - this.#reportedMs < reportMs) {
      return [];
    }
    const held = this.#changed.filter(({ id }) => isHeld(id));
    const reported = this.#changed.filter(({ id }) => !isHeld(id));
    this.#changed = [...reported.splice(maxReported), ...held];
    this.#isUrgent &&= held.length > 0;
    this.#reportedMs = nowMs;
    return reported.flatMap((counter) => {
      const { id, messages, errors, warnings, lastMessageMs } = counter;
      counter.isChanged = false;
      if (this.#counters.get(id) !== counter) {
        return [];
      }
      return {
        kind: "counts",
        ...this.#options.locate(id),
        messages,
        errors,
        warnings,
        ...(messages > 0 && { lastMessageMs }),
      };
    });
  }

  #create(id: string): Counter {
    const { activity, locate } = this.#options;
    const number = activity.add(id, locate(id));
    const counter: Counter = { id, messages: 0, errors: 0, warnings: 0, lastMessageMs: 0, number, isChanged: false };
    if (this.#counters.size < maxCounters) {
      this.#counters.set(id, counter);
    } else {
      // Flows have no more nodes than that, unless they make them up.
      counter.isChanged = true;
    }
    return counter;
  }

  #change(counter: Counter): void {
    counter.isChanged = true;
    this.#changed.push(counter);
    this.#options.onChange();
  }
}
