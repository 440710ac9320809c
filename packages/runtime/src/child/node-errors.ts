import type { NodeError, NodeErrorLevel, NodeRef } from "../node-events.ts";
import { describeError, summarize } from "./error-text.ts";

type Occurrence = {
  readonly id: string;
  readonly level: NodeErrorLevel;
  readonly value: unknown;
  readonly caught: boolean;
};

type Repeated = { readonly id: string; readonly error: NodeError; count: number; sentMs: number };

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
  /** The keys of `#known` by node. */
  readonly #keys = new Map<string, Set<string>>();
  #ended: NodeError[] = [];
  #new = 0;
  /** The occurrences that were not reported yet. */
  #pending = 0;
  #dropped = 0;

  constructor(locate: (id: string) => NodeRef) {
    this.#locate = locate;
  }

  /** True if `take` or `takeEnded` would return anything, now or later. */
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
    const error: NodeError = {
      kind: "error",
      ...this.#locate(id),
      level,
      ...describeError(value, readCaller()),
      count: 1,
      ...(caught && { caught }),
    };
    this.#known.set(key, { id, error, count: 1, sentMs: -Infinity });
    this.#pending += 1;
    const keys = this.#keys.get(id) ?? new Set();
    this.#keys.set(id, keys.add(key));
  }

  /** The node was stopped. The next errors of this id are new ones, of a node that was started since. */
  end(id: string): void {
    for (const key of this.#keys.get(id) ?? []) {
      const repeated = this.#known.get(key);
      if (repeated !== undefined && repeated.count > 0) {
        this.#ended.push({ ...repeated.error, count: repeated.count });
      }
      this.#known.delete(key);
    }
    this.#keys.delete(id);
  }

  /** Removes and returns what is left of nodes that were stopped. */
  takeEnded(): readonly NodeError[] {
    const ended = this.#ended;
    this.#ended = [];
    this.#pending -= ended.reduce((sum, { count }) => sum + count, 0);
    return ended;
  }

  /**
   * Removes and returns what has to be reported now of other nodes, in the order of first occurrence, and how many were dropped. `all`: also
   * repetitions of errors that were reported just now; the next ones are new errors. `isHeld`: whether a node has to wait.
   */
  take(
    nowMs: number,
    all: boolean,
    isHeld: (id: string) => boolean,
  ): { readonly errors: readonly NodeError[]; readonly dropped: number } {
    const errors: NodeError[] = [];
    for (const [key, repeated] of this.#known) {
      const { id, error, count, sentMs } = repeated;
      if ((!all && nowMs - sentMs < repeatMs) || isHeld(id)) {
        continue;
      }
      if (count > 0) {
        errors.push({ ...error, count });
        this.#pending -= count;
        repeated.count = 0;
        repeated.sentMs = nowMs;
      }
      if (all || count === 0) {
        this.#forget(id, key);
      }
    }
    const dropped = this.#dropped;
    this.#new = 0;
    this.#dropped = 0;
    return { errors, dropped };
  }

  #forget(id: string, key: string): void {
    const keys = this.#keys.get(id);
    keys?.delete(key);
    if (keys?.size === 0) {
      this.#keys.delete(id);
    }
    this.#known.delete(key);
  }
}

function readCaller(): string | undefined {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = callerFrames;
  const { stack } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return stack;
}
