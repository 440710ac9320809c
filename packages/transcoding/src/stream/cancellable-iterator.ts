import type { Deadline } from "../call/deadline.ts";

/** What a stream is read from: an iterator that can be left at any moment. */
export type CancellableIterator<T> = {
  /** Rejects where the source fails, and as soon as the deadline is over. */
  next(): Promise<IteratorResult<T>>;
  /** Lets the implementation clean up; it is not waited for, and may not even have noticed yet. */
  cancel(): void;
};

/** Opens an iterable; a deadline leaves it. */
export function openCancellable<T>(iterable: AsyncIterable<T>, deadline: Deadline | undefined): CancellableIterator<T> {
  const iterator = iterable[Symbol.asyncIterator]();
  let isLeft = false;
  const cancel = (): void => {
    if (!isLeft) {
      isLeft = true;
      // What fails now fails for nobody.
      void Promise.resolve(iterator.return?.()).catch(() => {});
    }
  };
  if (deadline === undefined) {
    return { next: () => iterator.next(), cancel };
  }
  // One reaction to the deadline for the whole stream: Promise.race would leave one behind for each message.
  let isOver = false;
  let expire = (_error: unknown): void => {};
  deadline.expired.catch((error: unknown) => {
    isOver = true;
    expire(error);
    cancel();
  });
  return {
    next: () =>
      isOver
        ? Promise.reject(deadline.error)
        : new Promise((resolve, reject) => {
            expire = reject;
            iterator.next().then(resolve, reject);
          }),
    cancel,
  };
}
