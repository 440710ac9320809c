import { allocateUnpooled } from "#platform/bytes";

/** Collects chunks in one buffer, so that no object is kept for each small chunk. */
export class Accumulator {
  /** The number of bytes appended so far. */
  bytes = 0;
  readonly #expected: number | undefined;
  readonly #limit: number;
  #first: Uint8Array | undefined;
  #buffer: Uint8Array | undefined;

  /** `expected` is the announced length in bytes; `limit` is the maximum number of bytes that will be appended. */
  constructor(expected: number | undefined, limit: number) {
    this.#expected = expected;
    this.#limit = limit;
  }

  append(chunk: Uint8Array): void {
    const { bytes } = this;
    const needed = bytes + chunk.length;
    if (bytes === 0) {
      this.#first = chunk;
    } else {
      if (this.#buffer === undefined || this.#buffer.length < needed) {
        const grown = allocateUnpooled(this.#capacityFor(needed));
        grown.set(this.#buffer?.subarray(0, bytes) ?? this.#first ?? []);
        this.#buffer = grown;
        this.#first = undefined;
      }
      this.#buffer.set(chunk, bytes);
    }
    this.bytes = needed;
  }

  /** Returns the collected bytes; a single chunk is not copied. */
  take(): Uint8Array {
    return this.#buffer?.subarray(0, this.bytes) ?? this.#first ?? new Uint8Array();
  }

  /** Doubles the capacity. The announced length is allocated only after a sixteenth of it has arrived. */
  #capacityFor(needed: number): number {
    const expected = this.#expected;
    const isPlausible = expected !== undefined && needed >= expected / 16;
    return Math.min(this.#limit, Math.max(needed, isPlausible ? expected : 2 * needed));
  }
}
