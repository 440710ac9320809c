import type { Interceptor } from "@connectrpc/connect";
import { FlowgateError } from "../../errors.ts";

/**
 * Ends streams of answers with UNAVAILABLE when `closing` is aborted: one that only waits would hold up the end.
 * Connect's own `shutdownSignal` would break off unary calls as well.
 */
export function endStreams(closing: AbortSignal): Interceptor {
  return (next) => (request) =>
    request.stream
      ? Promise.resolve(next(request)).then((response) =>
          response.stream ? { ...response, message: untilAborted(response.message, closing) } : response,
        )
      : next(request);
}

async function* untilAborted<T>(messages: AsyncIterable<T>, closing: AbortSignal): AsyncGenerator<T> {
  const iterator = messages[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await nextOf(iterator, closing);
      if (done === true) {
        return;
      }
      yield value;
    }
  } finally {
    // Not waited for: it may be waiting itself.
    iterator.return?.().catch(() => {});
  }
}

async function nextOf<T>(iterator: AsyncIterator<T>, closing: AbortSignal): Promise<IteratorResult<T>> {
  const next = Promise.withResolvers<IteratorResult<T>>();
  const onAbort = (): void => next.reject(new FlowgateError("unavailable", "the service is closing"));
  closing.addEventListener("abort", onAbort);
  iterator.next().then(next.resolve, next.reject);
  if (closing.aborted) {
    onAbort();
  }
  return next.promise.finally(() => closing.removeEventListener("abort", onAbort));
}
