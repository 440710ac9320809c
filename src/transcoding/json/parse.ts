import { isUtf8 } from "node:buffer";
import { Fault, type JsonPath } from "../fault.ts";
import { explainJson } from "./explain.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/**
 * Parses JSON (RFC 8259) strictly: UTF-8 throughout, no repeated key, no `__proto__` key, no lone
 * surrogate, no number beyond a double, nested at most `maxDepth` deep. `root` is where the document stands. Throws a Fault
 * `invalid_json` that says what is wrong and where, and repeats nothing of the values. With `exact`, an integer literal
 * that a double can't hold becomes a bigint, and `isExact` is true of the document.
 *
 * JSON.parse takes most of that silently. A document is suspect if it has more colons outside its
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
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
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
  if (census.keys !== outline.colons || hasEscapedSurrogate(text)) {
    const fault = explainJson(text, maxDepth, root);
    if (fault !== undefined) {
      throw fault;
    }
  }
  return exact && census.isUnsafe ? parseExact(text) : value;
}

/** An escape of \uD800 to \uDFFF, or what looks like one. */
function hasEscapedSurrogate(text: string): boolean {
  return text.includes("\\ud") || text.includes("\\uD");
}

/** Documents with bigints in them. Only for them do readers look for any. */
const exactDocuments = new WeakSet<object>();

export function isExact(document: unknown): boolean {
  return (
    typeof document === "bigint" || (typeof document === "object" && document !== null && exactDocuments.has(document))
  );
}

/** Several times as slow as JSON.parse alone. */
function parseExact(text: string): unknown {
  let found = false;
  const revive = (_key: string, item: unknown, context?: { source?: string }): unknown => {
    const source = context?.source;
    // 20 characters hold every 64-bit integer.
    if (typeof item !== "number" || Number.isSafeInteger(item) || source === undefined || source.length > 20) {
      return item;
    }
    if (!/^-?\d+$/.test(source)) {
      return item;
    }
    found = true;
    return BigInt(source);
  };
  const value: unknown = JSON.parse(text, revive);
  if (found && typeof value === "object" && value !== null) {
    exactDocuments.add(value);
  }
  return value;
}

type Outline = { readonly colons: number; readonly depth: number };

/** What the bytes of a document show without parsing it; of a malformed one, anything. */
function outlineOf(bytes: Uint8Array): Outline {
  const length = bytes.length;
  let colons = 0;
  let depth = 0;
  let open = 0;
  let quote = -1;
  let backslash = -1;
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
  return { colons, depth };
}

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
