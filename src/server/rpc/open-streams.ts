/** The RPCs that stream at the moment. */
export type OpenStreams = {
  /** Registers what ends a stream when the server closes; returns what unregisters it. */
  readonly until: (end: () => void) => () => void;
  /** Ends them all. */
  readonly close: () => void;
};

export function createOpenStreams(): OpenStreams {
  const open = new Set<() => void>();
  let isClosed = false;
  return {
    until(end) {
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
