import { Code, ConnectError } from "@connectrpc/connect";

/** Rejects with UNAVAILABLE when the signal is aborted, also while a message is awaited. */
export async function* untilShutdown<T>(messages: AsyncIterable<T>, shutdown: AbortSignal): AsyncGenerator<T> {
  const iterator = messages[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await nextOf(iterator, shutdown);
      if (done === true) {
        return;
      }
      yield value;
    }
  } finally {
    // Not awaited: `return` of a generator waits for its pending `next`.
    iterator.return?.().catch(() => {});
  }
}

async function nextOf<T>(iterator: AsyncIterator<T>, shutdown: AbortSignal): Promise<IteratorResult<T>> {
  const next = Promise.withResolvers<IteratorResult<T>>();
  const onAbort = (): void => next.reject(new ConnectError("the service is closing", Code.Unavailable));
  shutdown.addEventListener("abort", onAbort);
  iterator.next().then(next.resolve, next.reject);
  if (shutdown.aborted) {
    onAbort();
  }
  return next.promise.finally(() => shutdown.removeEventListener("abort", onAbort));
}
