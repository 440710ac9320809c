import { Code, ConnectError } from "@connectrpc/connect";

/** Reads the body of a response, each chunk when it is asked for. `return` cancels the response. */
export async function* readChunks(
  { body }: Response,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, undefined> {
  if (body === null) {
    return;
  }
  const reader = body.getReader();
  try {
    for (;;) {
      const result = await reader.read().catch((cause: unknown) => {
        throw connectionLost(cause, signal);
      });
      if (result.done) {
        // Node ends the body of an aborted request without an error, if it was aborted before getReader was called.
        signal.throwIfAborted();
        return;
      }
      yield result.value;
    }
  } finally {
    reader.cancel().catch(() => {
      // The body has failed, which has been reported.
    });
  }
}

/** The error for a request that failed without a response, or within it; the signal's own if it was aborted. */
export function connectionLost(cause: unknown, signal: AbortSignal): unknown {
  return signal.aborted || cause instanceof ConnectError
    ? cause
    : new ConnectError(`the connection failed: ${String(cause)}`, Code.Unavailable, undefined, undefined, cause);
}
