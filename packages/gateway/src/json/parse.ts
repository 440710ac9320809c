import { decodeUtf8 } from "#platform/bytes";
import { RequestError } from "../http/request-error.ts";
import type { JsonPath } from "./path.ts";
import { withWideIntegers } from "./exact.ts";
import { locateJsonError } from "./locate-error.ts";
import { parseEscapedKeys } from "./parse-escaped-keys.ts";
import { scanStructure } from "./structural-scan.ts";
import { findLoneSurrogate } from "./well-formed.ts";

/** How `__proto__` as a key is treated, which code that copies objects may take for the prototype. */
export type PrototypeKeys = "accept" | "reject";

export type ParseOptions = {
  /** The path of the document in its surroundings. Default: none. */
  readonly root?: JsonPath;
  /** The value has a WideInteger for each integer that a double can't represent; `wideIntegersOf` returns them. Default: false. */
  readonly exact?: boolean;
  /** Default: "accept". */
  readonly prototypeKeys?: PrototypeKeys;
};

/**
 * Parses JSON (RFC 8259) strictly: valid UTF-8, no repeated key, no lone surrogate, no number beyond the range of a double, at
 * most `maxDepth` levels. Throws a RequestError `invalid_json` that describes what is wrong and where, without repeating a
 * value. A key `__proto__` is an own property of its object.
 *
 * JSON.parse does not check most of this. A document has a repeated key if it has more colons outside of strings than its
 * value has keys. The other errors show in the structural scan, or in the keys and numbers of the value. The slow parser,
 * which finds the place, is used only for documents with an error.
 */
export function parseJson(bytes: Uint8Array, maxDepth: number, options: ParseOptions = {}): unknown {
  const text = decodeUtf8(bytes);
  if (text === undefined) {
    throw new RequestError(400, "invalid_json", "the body is not valid UTF-8");
  }
  const locate = (): RequestError => locateJsonError(text, maxDepth, options);
  const { colons, depth, hasUnicodeEscape, hasEscapedKey } = scanStructure(bytes);
  if (depth > maxDepth) {
    throw locate();
  }
  const parse = hasEscapedKey ? parseEscapedKeys : JSON.parse;
  let value: unknown;
  try {
    value = parse(text);
  } catch {
    throw locate();
  }
  const counts: Counts = { keys: 0, hasUnsafeInteger: false, rejectsProto: options.prototypeKeys === "reject" };
  count(value, counts);
  if (
    counts.keys !== colons ||
    (hasUnicodeEscape && hasEscapedSurrogate(text) && findLoneSurrogate(value) !== undefined)
  ) {
    throw locate();
  }
  return options.exact === true && counts.hasUnsafeInteger ? withWideIntegers(value, text, parse) : value;
}

/** Whether there may be an escape from \uD800 to \uDFFF. Encoders that write ASCII use pairs of them, for emoji for example. */
function hasEscapedSurrogate(text: string): boolean {
  return text.includes("\\ud") || text.includes("\\uD");
}

type Counts = {
  /** The keys of all objects; NaN if a key is rejected, or a number is not finite. */
  keys: number;
  /** Some number is an integer beyond 2^53, which may have been rounded. */
  hasUnsafeInteger: boolean;
  readonly rejectsProto: boolean;
};

function count(value: unknown, counts: Counts): void {
  if (typeof value === "number") {
    countNumber(value, counts);
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item = value[i] as unknown;
      if (typeof item === "object") {
        count(item, counts);
      } else if (typeof item === "number") {
        countNumber(item, counts);
      }
    }
  } else if (typeof value === "object" && value !== null) {
    let keys = 0;
    for (const key in value) {
      keys += counts.rejectsProto && key === "__proto__" ? Number.NaN : 1;
      const item = (value as Record<string, unknown>)[key];
      if (typeof item === "object") {
        count(item, counts);
      } else if (typeof item === "number") {
        countNumber(item, counts);
      }
    }
    counts.keys += keys;
  }
}

function countNumber(value: number, counts: Counts): void {
  if (!Number.isSafeInteger(value)) {
    if (!Number.isFinite(value)) {
      counts.keys = Number.NaN;
    } else if (Number.isInteger(value)) {
      counts.hasUnsafeInteger = true;
    }
  }
}
