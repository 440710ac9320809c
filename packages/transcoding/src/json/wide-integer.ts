/**
 * An integer literal that a double can't hold, where it stands in a document that was parsed exactly. It is a JSON
 * number, though JavaScript has it for an object.
 */
export class WideInteger {
  /** Without fraction and exponent, though the literal may have them. */
  readonly digits: string;
  /** Where it stands in the bytes of the document. */
  readonly start: number;
  readonly end: number;
  /** It was read as a double. */
  isRounded = false;

  constructor(digits: string, start: number, end: number) {
    this.digits = digits;
    this.start = start;
    this.end = end;
  }

  /** As JSON.parse would have given it. */
  round(): number {
    this.isRounded = true;
    return Number(this.digits);
  }
}

/** Whether a value of a parsed document is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof WideInteger);
}
