import { isUtf8 } from "node:buffer";
import { RequestError } from "../http/request-error.ts";
import type { JsonPath } from "./path.ts";
import { withWideIntegers } from "./exact.ts";
import { locateJsonError } from "./locate-error.ts";
import { scanStructure } from "./structural-scan.ts";

/**
 * Parses JSON (RFC 8259) strictly: UTF-8 throughout, no repeated key, no `__proto__` key, no lone
 * surrogate, no number beyond a double, nested at most `maxDepth` deep. `root` is where the document stands. Throws a RequestError
 * `invalid_json` that says what is wrong and where, and repeats nothing of the values. With `exact`, a WideInteger stands
 * for each integer literal that a double can't hold, and `wideIntegersOf` tells them.
 *
 * JSON.parse takes most of that silently. A document has a fault if it has more colons outside its
 * strings than its value has keys (one is repeated), or shows another of these signs; only then is it
 * read slowly, to find the place.
 */
export function parseJson(bytes: Uint8Array, maxDepth: number, root: JsonPath = [], exact: boolean = false): unknown {
  if (!isUtf8(bytes)) {
    throw new RequestError(400, "invalid_json", "the body is not valid UTF-8");
  }
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = buffer.toString("utf8");
  const { colons, depth, hasUnicodeEscape } = scanStructure(bytes);
  if (depth > maxDepth) {
    throw locateJsonError(text, maxDepth, root);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw locateJsonError(text, maxDepth, root);
  }
  const census: Census = { keys: 0, isUnsafe: false };
  countKeys(value, census);
  if (census.keys !== colons || (hasUnicodeEscape && hasEscapedSurrogate(text) && !isWellFormed(value))) {
    throw locateJsonError(text, maxDepth, root);
  }
  return exact && census.isUnsafe ? withWideIntegers(value, buffer) : value;
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

type Census = {
  /** Of all objects; NaN where one is `__proto__`, or a number is not finite. */
  keys: number;
  /** An integer beyond 2^53 is among the numbers: which one was written is not known any more. */
  isUnsafe: boolean;
};

function countKeys(value: unknown, census: Census): void {
  if (typeof value === "number") {
    countNumber(value, census);
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item = value[i] as unknown;
      if (typeof item === "object") {
        countKeys(item, census);
      } else if (typeof item === "number") {
        countNumber(item, census);
      }
    }
  } else if (typeof value === "object" && value !== null) {
    let keys = 0;
    for (const key in value) {
      keys += key === "__proto__" ? Number.NaN : 1;
      const item = (value as Record<string, unknown>)[key];
      if (typeof item === "object") {
        countKeys(item, census);
      } else if (typeof item === "number") {
        countNumber(item, census);
      }
    }
    census.keys += keys;
  }
}

function countNumber(value: number, census: Census): void {
  if (!Number.isSafeInteger(value)) {
    if (!Number.isFinite(value)) {
      census.keys = Number.NaN;
    } else if (Number.isInteger(value)) {
      census.isUnsafe = true;
    }
  }
}
