import type { NodeError, NodeErrorLevel, NodeRef } from "../node-events.ts";
import { describeError, summarize } from "./error-text.ts";

type Occurrence = {
  readonly id: string;
  readonly level: NodeErrorLevel;
  readonly value: unknown;
  readonly caught: boolean;
};

type Repeated = { readonly error: NodeError; count: number; sentMs: number };

/** The time between two reports of the same error. */
const repeatMs = 1_000;

/** Errors that are described, and reported, at once. */
const maxNew = 100;

/** Errors whose repetitions are counted. */
const maxKnown = 1_200;

/** Longer texts that begin alike, and have the same length, are taken for the same. */
const maxKeyChars = 1_000;

/** Frames of the runtime are between the code of a function node and the place where it is known that it logs. */
const callerFrames = 20;

/** Counts repeated errors and warnings of nodes, so that each is described once. */
export class NodeErrors {
  readonly #locate: (id: string) => NodeRef;
  readonly #known = new Map<string, Repeated>();
  #new = 0;
  /** The occurrences that were not reported yet. */
  #pending = 0;
  #dropped = 0;

  constructor(locate: (id: string) => NodeRef) {
    this.#locate = locate;
  }

  /** Whether `take` would return anything, now or later. */
  get isPending(): boolean {
    return this.#pending > 0 || this.#dropped > 0;
  }

  record({ id, level, value, caught }: Occurrence): void {
    const text = summarize(value);
    const key = `${level} ${caught} ${text.length} ${id} ${text.slice(0, maxKeyChars)}`;
    const known = this.#known.get(key);
    if (known !== undefined) {
      known.count += 1;
      this.#pending += 1;
      return;
    }
    if (this.#new >= maxNew || this.#known.size >= maxKnown) {
      this.#dropped += 1;
      return;
    }
    this.#new += 1;
    this.#pending += 1;
    const error: NodeError = {
      kind: "error",
      ...this.#locate(id),
      level,
      ...describeError(value, readCaller()),
      count: 1,
      ...(caught && { caught }),
    };
    this.#known.set(key, { error, count: 1, sentMs: -Infinity });
  }

  /**
   * Removes and returns what has to be reported now, in the order of first occurrence, and how many were dropped. `all`: also repetitions of
   * errors that were reported just now; the next ones are new errors.
   */
  take(nowMs: number, all = false): { readonly errors: readonly NodeError[]; readonly dropped: number } {
    const errors: NodeError[] = [];
    for (const [key, repeated] of this.#known) {
      const isDue = nowMs - repeated.sentMs >= repeatMs;
      if (!isDue && !(all && repeated.count > 0)) {
        continue;
      }
      if (repeated.count === 0) {
        this.#known.delete(key);
      } else {
        errors.push({ ...repeated.error, count: repeated.count });
        this.#pending -= repeated.count;
        repeated.count = 0;
        repeated.sentMs = nowMs;
      }
    }
    if (all) {
      this.#known.clear();
    }
    const dropped = this.#dropped;
    this.#new = 0;
    this.#dropped = 0;
    return { errors, dropped };
  }
}

function readCaller(): string | undefined {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = callerFrames;
  const { stack } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return stack;
}
