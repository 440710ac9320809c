import { isObject, WideInteger } from "./wide-integer.ts";

/** Documents with wide integers in them. Only for them do readers look for any. */
const exactDocuments = new WeakMap<object, readonly WideInteger[]>();

/** In the order of the document; undefined where it is as JSON.parse gives it. */
export function wideIntegersOf(document: unknown): readonly WideInteger[] | undefined {
  return typeof document === "object" && document !== null ? exactDocuments.get(document) : undefined;
}

/**
 * Parses a document that JSON.parse has taken, with a WideInteger for each integer that it rounds. `spans` are the starts
 * and ends of integer literals, those among them; no string of the document has a lone surrogate.
 */
export function parseExact(bytes: Buffer, spans: readonly number[]): unknown {
  const raw = bytes.toString("latin1");
  const integers: WideInteger[] = [];
  for (let at = 0; at < spans.length; at += 2) {
    const [start, end] = [spans[at] as number, spans[at + 1] as number];
    const digits = raw.slice(start, end);
    // 20 characters hold every 64-bit integer.
    if (digits.length <= 20 && !Number.isSafeInteger(Number(digits))) {
      integers.push(new WideInteger(digits, start, end));
    }
  }
  // No other string begins so: which stands for an integer is beyond doubt.
  const text = replaceIntegers(bytes, integers, (_integer, index) => `"\\udc00${index}"`);
  const document = revive(JSON.parse(text), integers);
  if (integers.length > 0) {
    exactDocuments.set(document as object, integers);
  }
  return document;
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
