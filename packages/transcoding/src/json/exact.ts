import { integerDigits } from "./scalar.ts";
import { endOfNumber, endOfString } from "./tokens.ts";
import { isObject, WideInteger } from "./wide-integer.ts";

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;

/** Documents with wide integers in them. Only for them do readers look for any. */
const exactDocuments = new WeakMap<object, readonly WideInteger[]>();

/** In the order of the document; undefined where it is as JSON.parse gives it. */
export function wideIntegersOf(document: unknown): readonly WideInteger[] | undefined {
  return typeof document === "object" && document !== null ? exactDocuments.get(document) : undefined;
}

/**
 * The value of a document, as JSON.parse gave it, with a WideInteger for each integer that was rounded. No string of the
 * document has a lone surrogate.
 */
export function withWideIntegers(value: unknown, bytes: Buffer): unknown {
  const integers = findWideIntegers(bytes.toString("latin1"));
  if (integers.length === 0) {
    return value;
  }
  // No other string begins so: which stands for an integer is beyond doubt.
  const text = replaceIntegers(bytes, integers, (_integer, index) => `"\\udc00${index}"`);
  const document = revive(JSON.parse(text), integers);
  exactDocuments.set(document as object, integers);
  return document;
}

/** In a well-formed document, of a character for each byte. */
function findWideIntegers(document: string): WideInteger[] {
  const found: WideInteger[] = [];
  for (let at = 0; at < document.length;) {
    const code = document.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(document, at);
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const end = endOfNumber(document, at);
      const literal = document.slice(at, end);
      const value = Number(literal);
      const digits = Number.isInteger(value) && !Number.isSafeInteger(value) ? integerDigits(literal) : undefined;
      if (digits !== undefined) {
        found.push(new WideInteger(digits, at, end));
      }
      at = end;
    } else {
      at++;
    }
  }
  return found;
}

function revive(value: unknown, integers: readonly WideInteger[]): unknown {
  if (typeof value === "string") {
    return value.charCodeAt(0) === 0xdc00 ? integers[Number(value.slice(1))] : value;
  }
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      value[i] = revive(value[i], integers);
    }
  } else if (isObject(value)) {
    for (const key in value) {
      value[key] = revive(value[key], integers);
    }
  }
  return value;
}

/** The text of a document, with others in the place of its wide integers. */
export function replaceIntegers(
  bytes: Uint8Array,
  integers: readonly WideInteger[],
  textOf: (integer: WideInteger, index: number) => string,
): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (integers.length === 0) {
    return buffer.toString("utf8");
  }
  // A character for each byte: so they are counted alike.
  const raw = buffer.toString("latin1");
  let replaced = "";
  let from = 0;
  for (const [index, integer] of integers.entries()) {
    replaced += raw.slice(from, integer.start) + textOf(integer, index);
    from = integer.end;
  }
  return Buffer.from(replaced + raw.slice(from), "latin1").toString("utf8");
}
