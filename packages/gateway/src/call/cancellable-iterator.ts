import type { Deadline } from "./deadline.ts";

/** An iterator that can be cancelled at any time, also while `next` is pending. */
export type CancellableIterator<T> = {
  /** Rejects if the source fails, or when the deadline expires. */
  next(): Promise<IteratorResult<T>>;
  /** Calls `return` of the source, without waiting for it. */
  cancel(): void;
};

/** Opens an iterable. It is cancelled when the deadline expires. */
export function openCancellable<T>(iterable: AsyncIterable<T>, deadline: Deadline | undefined): CancellableIterator<T> {
  const iterator = iterable[Symbol.asyncIterator]();
  let isCancelled = false;
  const cancel = (): void => {
    if (!isCancelled) {
      isCancelled = true;
      // The result is not used any more, so errors of the cleanup are ignored.
      void Promise.resolve(iterator.return?.()).catch(() => {});
    }
  };
  if (deadline === undefined) {
    return { next: () => iterator.next(), cancel };
  }
  // One reaction for the whole stream: Promise.race would add a reaction to `expired` for each message.
  let isExpired = false;
  let expire = (_error: unknown): void => {};
  deadline.expired.catch((error: unknown) => {
    isExpired = true;
    expire(error);
    cancel();
  });
  return {
    next: () =>
      isExpired
        ? Promise.reject(deadline.error)
        : new Promise((resolve, reject) => {
            expire = reject;
            iterator.next().then(resolve, reject);
          }),
    cancel,
  };
}
