export const done: IteratorReturnResult<undefined> = { done: true, value: undefined };

/**
 * An async iterator whose results can also be taken without a promise. The responses of an implementation that returns one are written
 * in the call that makes them available, so that an event which is sent to many streams costs each of them little more than the write.
 */
export abstract class PollableIterator<T> implements AsyncIterableIterator<T, undefined> {
  #reads: PromiseWithResolvers<IteratorResult<T, undefined>>[] | undefined;

  /**
   * Returns the next result, or throws the error with which the iteration has failed. Undefined: there is no result
   * yet; `onReady` is called when there may be one, but not before `poll` has returned. It replaces the callback of an
   * earlier call, does not throw, and may call `poll`.
   */
  abstract poll(onReady: () => void): IteratorResult<T, undefined> | undefined;

  /** May be called again before it has resolved, as of a generator. */
  next(): Promise<IteratorResult<T, undefined>> {
    const read = Promise.withResolvers<IteratorResult<T, undefined>>();
    (this.#reads ??= []).push(read);
    this.#answer();
    return read.promise;
  }

  /** Called when no more results are wanted, also while one is awaited. To be overridden to release resources. */
  return(): Promise<IteratorResult<T, undefined>> {
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Answers waiting reads. May be called by the polled source after they were answered. */
  #answer(): void {
    for (let read = this.#reads?.[0]; read !== undefined; read = this.#reads?.[0]) {
      try {
        const result = this.poll(() => this.#answer());
        if (result === undefined) {
          return;
        }
        read.resolve(result);
      } catch (error) {
        read.reject(error);
      }
      this.#reads?.shift();
    }
    this.#reads = undefined;
  }
}

/** Opens an iterable; an iterator that can't be polled is awaited. */
export function openPollable<T>(iterable: AsyncIterable<T>): PollableIterator<T> {
  const iterator = iterable[Symbol.asyncIterator]();
  return iterator instanceof PollableIterator ? iterator : new AwaitedIterator(iterator);
}

class AwaitedIterator<T> extends PollableIterator<T> {
  readonly #iterator: AsyncIterator<T>;
  #onReady: (() => void) | undefined;
  #take: (() => IteratorResult<T>) | undefined;

  constructor(iterator: AsyncIterator<T>) {
    super();
    this.#iterator = iterator;
  }

  poll(onReady: () => void): IteratorResult<T, undefined> | undefined {
    const take = this.#take;
    if (take !== undefined) {
      this.#take = undefined;
      return take();
    }
    const isAwaited = this.#onReady !== undefined;
    this.#onReady = onReady;
    if (!isAwaited) {
      this.#iterator.next().then(
        (result) => this.#settle(() => result),
        (error: unknown) =>
          this.#settle(() => {
            throw error;
          }),
      );
    }
    return undefined;
  }

  override async return(): Promise<IteratorResult<T, undefined>> {
    await this.#iterator.return?.();
    return done;
  }

  #settle(take: () => IteratorResult<T>): void {
    const onReady = this.#onReady;
    this.#onReady = undefined;
    this.#take = take;
    onReady?.();
  }
}
