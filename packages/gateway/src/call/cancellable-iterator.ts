import type { Deadline } from "./deadline.ts";
import { PollableIterator, openPollable } from "./pollable-iterator.ts";

/** An iterator that can be cancelled at any time, also while a result is awaited. It fails when the deadline expires. */
export class CancellableIterator<T> extends PollableIterator<T> {
  readonly #source: PollableIterator<T>;
  #isCancelled = false;
  #error: unknown;
  #onReady: (() => void) | undefined;

  constructor(source: AsyncIterable<T>, deadline: Deadline | undefined) {
    super();
    this.#source = openPollable(source);
    deadline?.expired.catch((error: unknown) => this.fail(error));
  }

  poll(onReady: () => void): IteratorResult<T, undefined> | undefined {
    if (this.#error !== undefined) {
      throw this.#error;
    }
    this.#onReady = onReady;
    return this.#source.poll(onReady);
  }

  /** Cancels the source; the next result is this error. */
  fail(error: unknown): void {
    this.#error = error;
    this.cancel();
    this.#onReady?.();
  }

  cancel(): void {
    if (!this.#isCancelled) {
      this.#isCancelled = true;
      // The result is not used any more, so errors of the cleanup are ignored.
      this.#source.return().catch(() => {});
    }
  }
}
