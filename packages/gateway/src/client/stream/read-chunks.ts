import { Code, ConnectError } from "@connectrpc/connect";

const READ_AHEAD_BYTES = 64 * 1024;

/**
 * Reads the body of a response. It begins immediately and reads ahead, up to a limit, because fetch drops unread data
 * when the server aborts a stream, as it does after an error. `return` cancels the response.
 */
export function readChunks({ body }: Response, signal: AbortSignal): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = body?.getReader();
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  let end: { readonly error?: unknown } | undefined = reader === undefined ? {} : undefined;
  let isReading = false;
  let wake = (): void => {};

  const read = async (): Promise<void> => {
    if (isReading || reader === undefined) {
      return;
    }
    isReading = true;
    try {
      while (end === undefined && bytes < READ_AHEAD_BYTES) {
        const { done, value } = await reader.read();
        if (done) {
          end = {};
        } else {
          chunks.push(value);
          bytes += value.length;
        }
        wake();
      }
    } catch (cause) {
      end = { error: toCallError(cause, signal) };
      wake();
    }
    isReading = false;
  };

  void read();
  return (async function* () {
    try {
      for (;;) {
        const chunk = chunks.shift();
        if (chunk !== undefined) {
          bytes -= chunk.length;
          void read();
          yield chunk;
        } else if (end === undefined) {
          const { promise, resolve } = Promise.withResolvers<void>();
          wake = resolve;
          await promise;
        } else if ("error" in end) {
          throw end.error;
        } else {
          // Node ends the body of an aborted request without an error, if it was aborted before getReader was called.
          signal.throwIfAborted();
          return;
        }
      }
    } finally {
      reader?.cancel().catch(() => {
        // The body has failed, which has been reported.
      });
    }
  })();
}

/** The error of a call: unchanged if it is a ConnectError or the signal was aborted, otherwise UNAVAILABLE. */
export function toCallError(cause: unknown, signal: AbortSignal): unknown {
  return signal.aborted || cause instanceof ConnectError
    ? cause
    : new ConnectError(`the connection failed: ${String(cause)}`, Code.Unavailable, undefined, undefined, cause);
}
