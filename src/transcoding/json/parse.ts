import { isUtf8 } from "node:buffer";
import { Fault, type JsonPath } from "../fault.ts";
import { parseExact } from "./exact.ts";
import { explainJson } from "./explain.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;

/**
 * Parses JSON (RFC 8259) strictly: UTF-8 throughout, no repeated key, no `__proto__` key, no lone
 * surrogate, no number beyond a double, nested at most `maxDepth` deep. `root` is where the document stands. Throws a Fault
 * `invalid_json` that says what is wrong and where, and repeats nothing of the values. With `exact`, a WideInteger stands
 * for each integer literal that a double can't hold, and `wideIntegersOf` tells them.
 *
 * JSON.parse takes most of that silently. A document has a fault if it has more colons outside its
 * strings than its value has keys (one is repeated), or shows another of these signs; only then is it
 * read slowly, to find the place.
 */
export function parseJson(
  bytes: Uint8Array,
  maxDepth: number,
  root: Readonly<JsonPath> = [],
  exact: boolean = false,
): unknown {
  if (!isUtf8(bytes)) {
    throw new Fault(400, "invalid_json", "the body is not valid UTF-8");
  }
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  const outline = outlineOf(bytes);
  if (outline.depth > maxDepth) {
    throw explainJson(text, maxDepth, root);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw explainJson(text, maxDepth, root);
  }
  const census: Census = { keys: 0, isUnsafe: false };
  countKeys(value, census);
  if (census.keys !== outline.colons || (hasEscapedSurrogate(text) && !isWellFormed(value))) {
    throw explainJson(text, maxDepth, root);
  }
  const isRounded = census.isUnsafe && outline.integers.length > 0;
  return exact && isRounded ? parseExact(buffer, outline.integers) : value;
}

/** An escape of \uD800 to \uDFFF, or what looks like one: half of a pair, as most encoders of ASCII write an emoji. */
function hasEscapedSurrogate(text: string): boolean {
  return text.includes("\\ud") || text.includes("\\uD");
}

/** No string, nor key, has a lone surrogate. */
function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") {
    return value.isWellFormed();
  }
  if (Array.isArray(value)) {
    return value.every(isWellFormed);
  }
  if (typeof value === "object" && value !== null) {
    for (const key in value) {
      if (!key.isWellFormed() || !isWellFormed((value as Record<string, unknown>)[key])) {
        return false;
      }
    }
  }
  return true;
}

type Outline = {
  readonly colons: number;
  readonly depth: number;
  /** Starts and ends of integer literals, one after the other: of all those that a double may not hold. */
  readonly integers: readonly number[];
};

/** What the bytes of a document show without parsing it; of a malformed one, anything. */
function outlineOf(bytes: Uint8Array): Outline {
  const length = bytes.length;
  let colons = 0;
  let depth = 0;
  let open = 0;
  let quote = -1;
  let backslash = -1;
  const integers: number[] = [];
  for (let i = 0; i < length;) {
    const byte = bytes[i++] as number;
    if (byte === QUOTE) {
      for (let limit = i + LONG_STRING; i < length;) {
        const inside = bytes[i++];
        if (inside === QUOTE) {
          break;
        }
        if (inside === BACKSLASH) {
          i++;
          limit = i + LONG_STRING;
        } else if (i >= limit) {
          // Node looks for a byte several times as fast. What it found is kept: each byte is looked at but once or twice.
          quote = quote < i ? indexOf(bytes, QUOTE, i) : quote;
          backslash = backslash < i ? indexOf(bytes, BACKSLASH, i) : backslash;
          i = Math.min(quote, backslash);
        }
      }
    } else if (byte < COLON) {
      if (byte >= ZERO) {
        const start = i - 1;
        while (i < length && isDigit(bytes[i] as number)) {
          i++;
        }
        // 2^53 has 16 digits, and its first is a 9.
        if (i - start >= 16 && (byte === NINE || i - start > 16) && isInteger(bytes, start, i)) {
          integers.push(bytes[start - 1] === MINUS ? start - 1 : start, i);
        }
      }
    } else if (byte === COLON) {
      colons++;
    } else if (byte >= 0x5b) {
      const bracket = byte | 0x20;
      if (bracket === 0x7b /* [ { */) {
        open++;
        if (open > depth) {
          depth = open;
        }
      } else if (bracket === 0x7d /* ] } */) {
        open--;
      }
    }
  }
  return { colons, depth, integers };
}

const isDigit = (byte: number): boolean => byte >= ZERO && byte < COLON;

/** The digits are a number of their own, and not the part of one that has a fraction or an exponent. */
function isInteger(bytes: Uint8Array, start: number, end: number): boolean {
  const before = bytes[bytes[start - 1] === MINUS ? start - 2 : start - 1];
  const after = bytes[end];
  return !isPartOfNumber(before) && !isPartOfNumber(after);
}

const isPartOfNumber = (byte: number | undefined): boolean =>
  byte === 0x2e /* . */ || byte === 0x65 /* e */ || byte === 0x45 /* E */ || byte === 0x2b; /* + */

/** After so many bytes it pays to search. */
const LONG_STRING = 256;

function indexOf(bytes: Uint8Array, byte: number, from: number): number {
  const found = bytes.indexOf(byte, from);
  return found === -1 ? bytes.length : found;
}

type Census = {
  /** Of all objects; NaN where one is `__proto__`, or a number is not finite. */
  keys: number;
  /** An integer beyond 2^53 is among the numbers: which one was written is not known any more. */
  isUnsafe: boolean;
};

function countKeys(value: unknown, census: Census): void {
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) && Number.isInteger(value)) {
      census.isUnsafe = true;
    } else if (!Number.isFinite(value)) {
      census.keys = Number.NaN;
    }
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item = value[i] as unknown;
      if (typeof item !== "string") {
        countKeys(item, census);
      }
    }
  } else if (typeof value === "object" && value !== null) {
    for (const key in value) {
      census.keys += key === "__proto__" ? Number.NaN : 1;
      const item = (value as Record<string, unknown>)[key];
      if (typeof item !== "string") {
        countKeys(item, census);
      }
    }
  }
}
