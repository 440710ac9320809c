import { integerDigits } from "./scalar.ts";
import { endOfNumber, endOfString } from "./tokens.ts";
import { isObject } from "./object.ts";
import { WideInteger } from "./wide-integer.ts";

const QUOTE = 0x22;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;

/** The wide integers of the documents that have any. Readers handle wide integers only in these documents. */
const exactDocuments = new WeakMap<object, readonly WideInteger[]>();

/** The wide integers of a document, in its order; undefined if the document has none. */
export function wideIntegersOf(document: unknown): readonly WideInteger[] | undefined {
  return typeof document === "object" && document !== null ? exactDocuments.get(document) : undefined;
}

/**
 * Returns the value of a document, as `parse` returned it, with a WideInteger in place of each integer that was rounded.
 * No string of the document may have a lone surrogate.
 */
export function withWideIntegers(value: unknown, text: string, parse: (text: string) => unknown): unknown {
  const integers = findWideIntegers(text);
  if (integers.length === 0) {
    return value;
  }
  // A placeholder begins with a lone surrogate, as no other string does.
  const marked = replaceIntegers(text, integers, (_integer, index) => `"\\udc00${index}"`);
  const document = revive(parse(marked), integers);
  exactDocuments.set(document as object, integers);
  return document;
}

/** Makes a part of a document one of its own, with the same wide integers. */
export function separatePart(part: unknown, document: unknown): unknown {
  const integers = wideIntegersOf(document);
  if (integers !== undefined && typeof part === "object" && part !== null) {
    exactDocuments.set(part, integers);
  }
  return part;
}

/** `document` must be valid JSON. */
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
      const digits = Number.isInteger(value) && !Number.isSafeInteger(value) ? digitsOf(literal) : undefined;
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

/** Undefined for an integer of more than 20 digits that is written with a fraction or an exponent. */
function digitsOf(literal: string): string | undefined {
  return /[.eE]/.test(literal) ? integerDigits(literal) : literal;
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

/** Returns the text of a document, which must be valid, in which its wide integers are replaced. */
export function replaceIntegers(
  text: string,
  integers: readonly WideInteger[],
  textOf: (integer: WideInteger, index: number) => string,
): string {
  let replaced = "";
  let from = 0;
  for (const [index, integer] of integers.entries()) {
    replaced += text.slice(from, integer.start) + textOf(integer, index);
    from = integer.end;
  }
  return replaced + text.slice(from);
}
