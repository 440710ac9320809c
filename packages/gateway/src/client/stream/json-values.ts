const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;

/** Splits a text that arrives in pieces into JSON values. */
export type JsonValues = {
  /** Adds a piece. Returns the text of each value that it completes; throws an Error for text after the end of an array. */
  push(piece: string): string[];
  /** Ends the text. Returns the value that only the end completes; throws an Error if a value is not complete. */
  end(): string[];
  /** True if the values are the items of an array. */
  readonly isArray: () => boolean;
};

/**
 * Splits the items of an array, or consecutive values. The values are not validated: JSON.parse reports their errors.
 */
export function createJsonValues(): JsonValues {
  let text = "";
  /** The index at which the scan continues. */
  let at = 0;
  /** The index at which the current value begins; -1 between values. */
  let start = -1;
  let depth = 0;
  let inString = false;
  /** 1 in an array, whose brackets are not part of a value; undefined before the first character. */
  let base: number | undefined;
  let isClosed = false;

  const take = (end: number): string => {
    const value = text.slice(start, end);
    start = -1;
    return value;
  };

  /** Reads the character at `at` outside of strings; returns the end of the value that it completes, or -1. */
  const step = (code: number): number => {
    switch (code) {
      case QUOTE:
        start = start === -1 ? at : start;
        inString = true;
        return -1;
      case OPEN_BRACKET:
      case OPEN_BRACE:
        if (base === undefined && code === OPEN_BRACKET) {
          base = depth = 1;
          return -1;
        }
        start = start === -1 ? at : start;
        depth++;
        return -1;
      case CLOSE_BRACKET:
      case CLOSE_BRACE:
        depth--;
        if (base === 1 && depth === 0) {
          isClosed = true;
          return start === -1 ? -1 : at;
        }
        return depth === (base ?? 0) ? at + 1 : -1;
      default:
        if (code === COMMA || code <= SPACE) {
          return start !== -1 && depth === (base ?? 0) ? at : -1;
        }
        start = start === -1 ? at : start;
        return -1;
    }
  };

  return {
    isArray: () => base === 1,
    push(piece) {
      text += piece;
      const values: string[] = [];
      for (; at < text.length; at++) {
        const code = text.charCodeAt(at);
        if (inString) {
          if (code === BACKSLASH) {
            at++;
          } else if (code === QUOTE) {
            inString = false;
            if (depth === (base ?? 0)) {
              values.push(take(at + 1));
            }
          }
          continue;
        }
        if (isClosed && code > SPACE) {
          throw new Error("unexpected text after the end of the array");
        }
        const end = step(code);
        if (end !== -1) {
          values.push(take(end));
        }
        if (code > SPACE) {
          base ??= 0;
        }
      }
      const kept = start === -1 ? text.length : start;
      text = text.slice(kept);
      at -= kept;
      start = start === -1 ? -1 : 0;
      return values;
    },
    end() {
      if (inString || depth > 0 || (base === 1 && !isClosed)) {
        throw new Error("unexpected end");
      }
      return start === -1 ? [] : [take(text.length)];
    },
  };
}
