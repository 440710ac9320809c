import { Code, ConnectError } from "@connectrpc/connect";

export type OpenStreams = {
  /** Registers a callback that ends a stream with an error at shutdown. Returns a function that unregisters it. */
  readonly register: (end: (error: ConnectError) => void) => () => void;
};

/** Returns the streams that a signal ends, from all methods that share it. */
export type OpenStreamsOf = (shutdown: AbortSignal | undefined) => OpenStreams;

export function createOpenStreamsOf(): OpenStreamsOf {
  const bySignal = new Map<AbortSignal | undefined, OpenStreams>();
  return (shutdown) => {
    const openStreams = bySignal.get(shutdown) ?? createOpenStreams(shutdown);
    bySignal.set(shutdown, openStreams);
    return openStreams;
  };
}

/**
 * Ends all streams, including those registered later, when the signal is aborted. One listener serves all streams.
 */
function createOpenStreams(shutdown: AbortSignal | undefined): OpenStreams {
  const open = new Set<(error: ConnectError) => void>();
  shutdown?.addEventListener("abort", () => {
    // Each unregisters itself.
    for (const end of Array.from(open)) {
      end(shutdownError(shutdown));
    }
  });
  return {
    register(end) {
      open.add(end);
      if (shutdown?.aborted === true) {
        end(shutdownError(shutdown));
      }
      return () => void open.delete(end);
    },
  };
}

/** The error that ends a stream at shutdown: the reason of the signal, as with Connect's adapters, if it is a ConnectError; else UNAVAILABLE. */
export function shutdownError({ reason }: AbortSignal): ConnectError {
  return reason instanceof ConnectError ? reason : new ConnectError("the service is closing", Code.Unavailable);
}
