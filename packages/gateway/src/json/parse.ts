import { decodeUtf8 } from "#platform/bytes";
import { RequestError } from "../http/request-error.ts";
import { formatPath, type JsonPath } from "./path.ts";
import { withWideIntegers } from "./exact.ts";
import { parseEscapedKeys } from "./parse-escaped-keys.ts";
import { scanStructure } from "./structural-scan.ts";
import { findLoneSurrogate } from "./well-formed.ts";
import { endOfNumber, endOfString, endOfWord, skipSpace } from "./tokens.ts";

/** The treatment of `__proto__` as a key. Code that copies objects may take it for the prototype. */
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

/** True if there may be an escape from \uD800 to \uDFFF. Encoders that write ASCII use pairs of them, for emoji for example. */
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

type Level = {
  /** The keys so far; undefined for an array. */
  readonly keys: Set<string> | undefined;
  readonly end: "}" | "]";
  at: string | number;
};

/**
 * Returns the first error that `parseJson` reports for a document, which must have one. To find the line, the column and
 * the path, it parses the whole grammar, which takes several times as long as JSON.parse.
 */
function locateJsonError(
  text: string,
  maxDepth: number,
  { root = [], prototypeKeys }: { readonly root?: JsonPath; readonly prototypeKeys?: "accept" | "reject" },
): RequestError {
  const levels: Level[] = [];
  const path = (): string => formatPath([...root, ...levels.map((level) => level.at)]);
  const malformed = (at: number, what: string): RequestError => {
    const before = text.slice(0, at);
    const place = `line ${before.split("\n").length}, column ${at - before.lastIndexOf("\n")}`;
    return new RequestError(400, "invalid_json", `the body is not valid JSON: ${what} (${place})`);
  };
  const rejected = (what: string): RequestError =>
    new RequestError(400, "invalid_json", `${path() || "the body"}: ${what}`, { repeatsInput: true });

  let at = skipSpace(text, 0);
  if (at === text.length) {
    return new RequestError(400, "invalid_json", "the body is empty; a JSON document was expected");
  }
  // Each round reads one value, the key before it in an object, and the closing brackets after it.
  for (let level: Level | undefined; ;) {
    if (level?.keys !== undefined) {
      const end = text[at] === '"' ? endOfString(text, at) : -1 - at;
      if (end < 0) {
        return malformed(-1 - end, "a key in double quotes was expected");
      }
      const key = stringAt(text, at, end);
      level.at = key;
      if (key === "__proto__" && prototypeKeys === "reject") {
        return rejected("this key is not allowed");
      }
      if (!key.isWellFormed()) {
        return rejected("the key has a lone surrogate");
      }
      if (level.keys.size === level.keys.add(key).size) {
        return rejected("duplicate key");
      }
      at = skipSpace(text, end);
      if (text[at] !== ":") {
        return malformed(at, "':' was expected");
      }
      at = skipSpace(text, at + 1);
    }

    const first = text[at];
    if (first === "{" || first === "[") {
      if (levels.length === maxDepth) {
        return new RequestError(400, undefined, `${path().slice(0, 200)}: nested deeper than ${maxDepth} levels`, {
          repeatsInput: true,
        });
      }
      level = first === "{" ? { keys: new Set(), end: "}", at: 0 } : { keys: undefined, end: "]", at: 0 };
      levels.push(level);
      at = skipSpace(text, at + 1);
      if (text[at] !== level.end) {
        continue;
      }
    } else if (first === '"') {
      const end = endOfString(text, at);
      if (end < 0) {
        return malformed(-1 - end, "a string is not terminated, or has a control character or an invalid escape");
      }
      if (!stringAt(text, at, end).isWellFormed()) {
        return rejected("a string with a lone surrogate");
      }
      at = end;
    } else {
      const isWord = first === "t" || first === "f" || first === "n";
      const end = isWord ? endOfWord(text, at) : endOfNumber(text, at);
      if (end < 0) {
        return malformed(at, at === text.length ? "unexpected end" : "a value was expected");
      }
      // The shortest number that is too large is 1e309.
      if (end - at >= 5 && !isWord && !Number.isFinite(Number(text.slice(at, end)))) {
        return rejected("a number beyond the range of a double");
      }
      at = end;
    }

    for (at = skipSpace(text, at); level !== undefined && text[at] === level.end; at = skipSpace(text, at + 1)) {
      levels.pop();
      level = levels.at(-1);
    }
    if (level === undefined) {
      return malformed(at, "unexpected text after the end of the document");
    }
    if (text[at] !== ",") {
      return malformed(at, at === text.length ? "unexpected end" : `',' or '${level.end}' was expected`);
    }
    at = skipSpace(text, at + 1);
    if (typeof level.at === "number") {
      level.at++;
    }
  }
}

function stringAt(text: string, start: number, end: number): string {
  const token = text.slice(start + 1, end - 1);
  return token.includes("\\") ? (JSON.parse(`"${token}"`) as string) : token;
}
