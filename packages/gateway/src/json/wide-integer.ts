import { prependPath, ValueError } from "./value-error.ts";

/** An integer in a document that is beyond 2^53, so that a double may not represent it. It is a JSON number, though an object in JavaScript. */
export class WideInteger {
  /** Without the fraction and the exponent that the literal may have. */
  readonly digits: string;
  /** The place of the literal in the text of the document. */
  readonly start: number;
  readonly end: number;
  /** It was read as a double, by `round`. */
  isRounded = false;

  constructor(digits: string, start: number, end: number) {
    this.digits = digits;
    this.start = start;
    this.end = end;
  }

  /** True if a double represents it. */
  get isExact(): boolean {
    return BigInt(this.digits) === BigInt(Number(this.digits));
  }

  /** Returns the value that JSON.parse would return. */
  round(): number {
    this.isRounded = true;
    return Number(this.digits);
  }
}

/** Throws a ValueError if a value of a parsed document contains an integer that a double cannot represent. */
export function assertExact(value: unknown): void {
  if (value instanceof WideInteger) {
    if (!value.isExact) {
      throw new ValueError("must be an integer that a double can represent, or a string");
    }
  } else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      try {
        assertExact(item);
      } catch (error) {
        throw prependPath(Array.isArray(value) ? Number(key) : key, error);
      }
    }
  }
}
