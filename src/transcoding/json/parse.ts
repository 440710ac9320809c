import { isUtf8 } from "node:buffer";
import { Fault, type JsonPath } from "../fault.ts";
import { explainJson } from "./explain.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;

/**
 * Parses JSON (RFC 8259) strictly: UTF-8 throughout, no repeated key, no `__proto__` key, no lone
 * surrogate, no number beyond a double, nested at most `maxDepth` deep. `root` is where the document stands. Throws a Fault
 * `invalid_json` that says what is wrong and where, and repeats nothing of the values.
 *
 * JSON.parse takes most of that silently. A document is suspect if it has more colons outside its
 * strings than its value has keys (one is repeated), or shows another of these signs; only then is it
 * read slowly, to find the place.
 */
export function parseJson(bytes: Uint8Array, maxDepth: number, root: Readonly<JsonPath> = []): unknown {
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
  if (outline.escapedSurrogate || countKeys(value) !== outline.colons) {
    const fault = explainJson(text, maxDepth, root);
    if (fault !== undefined) {
      throw fault;
    }
  }
  return value;
}

type Outline = { colons: number; depth: number; escapedSurrogate: boolean };

/** What the bytes of a document show without parsing it; of a malformed one, anything. */
function outlineOf(bytes: Uint8Array): Outline {
  const length = bytes.length;
  let colons = 0;
  let depth = 0;
  let open = 0;
  let escapedSurrogate = false;
  for (let i = 0; i < length; i++) {
    const byte = bytes[i] as number;
    if (byte === QUOTE) {
      for (i++; i < length && bytes[i] !== QUOTE; i++) {
        if (bytes[i] === BACKSLASH) {
          i++;
          // \uD800 to \uDFFF, in either case
          escapedSurrogate ||=
            bytes[i] === 0x75 && ((bytes[i + 1] as number) | 0x20) === 0x64 && (bytes[i + 2] as number) >= 0x38;
        }
      }
    } else if (byte === COLON) {
      colons++;
    } else if ((byte | 0x20) === 0x7b /* [ { */) {
      open++;
      if (open > depth) {
        depth = open;
      }
    } else if ((byte | 0x20) === 0x7d /* ] } */) {
      open--;
    }
  }
  return { colons, depth, escapedSurrogate };
}

/** The keys of all objects in a value; NaN where one is `__proto__`, or a number is not finite. */
function countKeys(value: unknown): number {
  if (typeof value === "number") {
    return Number.isFinite(value) ? 0 : Number.NaN;
  }
  if (typeof value !== "object" || value === null) {
    return 0;
  }
  let count = 0;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item = value[i] as unknown;
      count += typeof item === "string" ? 0 : countKeys(item);
    }
    return count;
  }
  for (const key in value) {
    count += key === "__proto__" ? Number.NaN : 1;
    const item = (value as Record<string, unknown>)[key];
    count += typeof item === "string" ? 0 : countKeys(item);
  }
  return count;
}
