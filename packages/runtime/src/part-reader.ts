/** A part of a text that is too long for a line of the channel, as base64. */
export type Part = { readonly part: string; readonly isLast: boolean };

/** The minimum size that is counted for a part: there could be any number of empty ones. */
const minPartBytes = 64;

/** Joins the parts of texts. Flows can forge them. */
export class PartReader {
  readonly #maxBytes: number;
  #parts: string[] = [];
  #bytes = 0;

  /** `maxBytes`: longer texts are left out. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Returns the text that this part completes. */
  add({ part, isLast }: Part): string | undefined {
    this.#parts.push(part);
    this.#bytes += Math.max(part.length, minPartBytes);
    // Base64 is a third longer.
    const isTooLong = this.#bytes > 2 * this.#maxBytes;
    if (!isLast && !isTooLong) {
      return undefined;
    }
    const parts = this.#parts;
    this.#parts = [];
    this.#bytes = 0;
    return isLast ? Buffer.concat(parts.map((each) => Buffer.from(each, "base64"))).toString() : undefined;
  }
}
