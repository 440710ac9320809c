/** Collects chunks into one buffer. Of small chunks it keeps the bytes, not an object for each. */
export type Accumulator = {
  /** So far. */
  readonly bytes: number;
  append(chunk: Uint8Array): void;
  /** All of it; a single chunk is not copied. */
  take(): Uint8Array;
};

/** `expected` is the length that was announced, `limit` the most that will be appended. */
export function createAccumulator(expected: number | undefined, limit: number): Accumulator {
  let first: Uint8Array | undefined;
  let buffer: Buffer | undefined;
  let bytes = 0;

  /** Doubles, so that copying stays cheap; the whole announced length only when a part of it has arrived. */
  const capacityFor = (needed: number): number => {
    const isUnderWay = expected !== undefined && needed >= expected / 16;
    return Math.min(limit, Math.max(needed, isUnderWay ? expected : 2 * needed));
  };

  return {
    get bytes() {
      return bytes;
    },
    append(chunk) {
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
      bytes = needed;
    },
    take: () => buffer?.subarray(0, bytes) ?? first ?? Buffer.alloc(0),
  };
}
