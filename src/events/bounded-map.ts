type BoundedMapOptions<Value> = {
  readonly maxEntries: number;
  readonly maxBytes: number;
  /** The characters of a value. The key's characters are added. */
  readonly charsOf: (value: Value) => number;
};

/** A map of untrusted values from flows, limited in number and in memory. */
export class BoundedMap<Value> {
  readonly #options: BoundedMapOptions<Value>;
  readonly #values = new Map<string, Value>();
  #bytes = 0;

  constructor(options: BoundedMapOptions<Value>) {
    this.#options = options;
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  /** In the order in which the keys were added. */
  entries(): MapIterator<[string, Value]> {
    return this.#values.entries();
  }

  values(): MapIterator<Value> {
    return this.#values.values();
  }

  /** False if the value does not fit. A value that takes no more than the one before always does. */
  set(key: string, value: Value): boolean {
    const before = this.#values.get(key);
    const added = this.#bytesOf(key, value) - this.#bytesOf(key, before);
    const isFull = before === undefined && this.#values.size >= this.#options.maxEntries;
    if (isFull || (added > 0 && this.#bytes + added > this.#options.maxBytes)) {
      return false;
    }
    this.#values.set(key, value);
    this.#bytes += added;
    return true;
  }

  delete(key: string): void {
    this.#bytes -= this.#bytesOf(key, this.#values.get(key));
    this.#values.delete(key);
  }

  clear(): void {
    this.#values.clear();
    this.#bytes = 0;
  }

  #bytesOf(key: string, value: Value | undefined): number {
    return value === undefined ? 0 : 2 * (key.length + this.#options.charsOf(value));
  }
}
