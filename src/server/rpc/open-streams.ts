/** The streaming RPCs in progress. */
export type OpenStreams = {
  /** Registers a callback that ends a stream when the server closes. Returns a function that unregisters it. */
  readonly register: (end: () => void) => () => void;
  /** Ends all streams, including those registered later. */
  readonly close: () => void;
};

export function createOpenStreams(): OpenStreams {
  const open = new Set<() => void>();
  let isClosed = false;
  return {
    register(end) {
      open.add(end);
      if (isClosed) {
        end();
      }
      return () => void open.delete(end);
    },
    close() {
      isClosed = true;
      // Each unregisters itself.
      for (const end of Array.from(open)) {
        end();
      }
    },
  };
}
