/** Collects chunks in one buffer, so that no object is kept for each small chunk. */
export type Accumulator = {
  /** The number of bytes appended so far. */
  readonly bytes: number;
  append(chunk: Uint8Array): void;
  /** Returns the collected bytes; a single chunk is not copied. */
  take(): Uint8Array;
};

/** `expected` is the announced length in bytes; `limit` is the maximum number of bytes that will be appended. */
export function createAccumulator(expected: number | undefined, limit: number): Accumulator {
  let first: Uint8Array | undefined;
  let buffer: Buffer | undefined;

  /** Doubles the capacity. The announced length is allocated only after a sixteenth of it has arrived. */
  const capacityFor = (needed: number): number => {
    const isPlausible = expected !== undefined && needed >= expected / 16;
    return Math.min(limit, Math.max(needed, isPlausible ? expected : 2 * needed));
  };

  const accumulator = {
    // Not a getter, which V8 would define anew for each object.
    bytes: 0,
    append(chunk: Uint8Array) {
      const { bytes } = accumulator;
      const needed = bytes + chunk.length;
      if (bytes === 0) {
        first = chunk;
      } else {
        if (buffer === undefined || buffer.length < needed) {
          const grown = Buffer.allocUnsafeSlow(capacityFor(needed));
          grown.set(buffer?.subarray(0, bytes) ?? first ?? []);
          buffer = grown;
          first = undefined;
        }
        buffer.set(chunk, bytes);
      }
      accumulator.bytes = needed;
    },
    take: () => buffer?.subarray(0, accumulator.bytes) ?? first ?? Buffer.alloc(0),
  };
  return accumulator;
}
