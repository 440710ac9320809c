/** Keeps what was read as long as its signature is the same. A read that has failed is not kept. */
export class CachedRead<T, Signature = string> {
  readonly #read: (signature: Signature) => Promise<T>;
  #signature: Signature | undefined;
  #value: Promise<T> | undefined;

  constructor(read: (signature: Signature) => Promise<T>) {
    this.#read = read;
  }

  /** Reads if the signature has changed since the last call, or that read has failed. */
  get(signature: Signature): Promise<T> {
    if (this.#value !== undefined && signature === this.#signature) {
      return this.#value;
    }
    const value = this.#read(signature);
    this.#signature = signature;
    this.#value = value;
    value.catch(() => {
      if (this.#value === value) {
        this.#value = undefined;
      }
    });
    return value;
  }
}
