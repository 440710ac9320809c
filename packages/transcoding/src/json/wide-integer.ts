/** An integer in a document that a double cannot represent. It is a JSON number, though an object in JavaScript. */
export class WideInteger {
  /** Without the fraction and the exponent that the literal may have. */
  readonly digits: string;
  /** The place of the literal in the bytes of the document. */
  readonly start: number;
  readonly end: number;
  /** It was read as a double, by `round`. */
  isRounded = false;

  constructor(digits: string, start: number, end: number) {
    this.digits = digits;
    this.start = start;
    this.end = end;
  }

  /** Returns the value that JSON.parse would return. */
  round(): number {
    this.isRounded = true;
    return Number(this.digits);
  }
}

/** Whether a value of a parsed document is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof WideInteger);
}
