import { FlowgateError } from "../errors.ts";

const done = { done: true, value: undefined } as const;

/** An open watch of the health. Values are read when they are requested, so that unread changes take no memory. */
export class HealthWatch<T> implements AsyncIterator<T, undefined> {
  readonly #read: () => T;
  readonly #onEnd: () => void;
  #last: T | undefined;
  #isClosing = false;
  #isEnded = false;
  #pending: PromiseWithResolvers<IteratorResult<T, undefined>> | undefined;

  constructor(read: () => T, onEnd: () => void) {
    this.#read = read;
    this.#onEnd = onEnd;
  }

  /** Settles the pending `next`, if there is something to report. */
  settle(): void {
    const pending = this.#pending;
    if (pending === undefined) {
      return;
    }
    const value = this.#isEnded ? this.#last : this.#read();
    if (value !== this.#last) {
      this.#last = value;
      pending.resolve({ done: false, value: value as T });
    } else if (this.#isEnded) {
      pending.resolve(done);
    } else if (this.#isClosing) {
      this.#isEnded = true;
      pending.reject(new FlowgateError("unavailable", "the service is closing"));
    } else {
      return;
    }
    this.#pending = undefined;
  }

  /** Ends it with an error, after the last change. */
  close(): void {
    this.#isClosing = true;
    this.#onEnd();
    this.settle();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    this.settle();
    return promise;
  }

  return(): Promise<IteratorResult<T, undefined>> {
    this.#isEnded = true;
    this.#onEnd();
    this.settle();
    return Promise.resolve(done);
  }
}
