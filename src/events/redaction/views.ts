/** A decoded form of a text: bytes, each with the range of the text that it stands for. */
export class View {
  /** Bytes, with `gap` between bytes that are not adjacent. */
  symbols = new Uint16Array(0);
  starts = new Uint32Array(0);
  ends = new Uint32Array(0);
  length = 0;

  /** Empties it. It has room for so many symbols then. */
  clear(capacity: number): void {
    this.length = 0;
    if (this.symbols.length < capacity) {
      this.symbols = new Uint16Array(capacity);
      this.starts = new Uint32Array(capacity);
      this.ends = new Uint32Array(capacity);
    }
  }

  add(symbol: number, start: number, end: number): void {
    this.symbols[this.length] = symbol;
    this.starts[this.length] = start;
    this.ends[this.length] = end;
    this.length += 1;
  }

  /**
   * Adds a gap before this symbol of the source, unless only separators follow: the last value may have been cut there.
   */
  addGap({ symbols, length }: View, before: number): void {
    let next = before;
    while (next < length && separators.has(symbols[next] as number)) {
      next += 1;
    }
    if (next < length && this.length > 0 && this.symbols[this.length - 1] !== gap) {
      this.add(gap, 0, 0);
    }
  }
}

export const gap = 256;

/** Reads a view of a text in a form. */
export type Form = (source: View, target: View) => void;

export function readBytes(bytes: Uint8Array, target: View): void {
  target.clear(bytes.length);
  const { symbols, starts, ends } = target;
  for (let index = 0; index < bytes.length; index += 1) {
    symbols[index] = bytes[index] as number;
    starts[index] = index;
    ends[index] = index + 1;
  }
  target.length = bytes.length;
}

/** Without the escape sequences of strings in JSON and in what `inspect` prints. */
export function readEscaped(source: View, target: View): void {
  target.clear(source.length);
  const { symbols, starts, ends, length } = source;
  let index = 0;
  while (index < length) {
    const start = starts[index] as number;
    if (symbols[index] !== codes.backslash) {
      target.add(symbols[index] as number, start, ends[index] as number);
      index += 1;
      continue;
    }
    if (index + 1 === length) {
      return;
    }
    const escape = symbols[index + 1] as number;
    const digits = escape === codes.u ? 4 : escape === codes.x ? 2 : 0;
    let unit = digits === 0 ? -1 : readHex(source, index + 2, digits);
    if (unit === -1) {
      if (digits > 0 && index + 2 + digits > length) {
        return;
      }
      target.add(escapes.get(escape) ?? escape, start, ends[index + 1] as number);
      index += 2;
      continue;
    }
    index += 2 + digits;
    if (unit >= 0xd800 && unit < 0xdc00) {
      if (index + 6 > length) {
        return;
      }
      const hasPair = symbols[index] === codes.backslash && symbols[index + 1] === codes.u;
      const low = hasPair ? readHex(source, index + 2, 4) : -1;
      if (low >= 0xdc00 && low < 0xe000) {
        unit = 0x10000 + (unit - 0xd800) * 0x400 + (low - 0xdc00);
        index += 6;
      }
    }
    addCharacter(target, unit, start, ends[index - 1] as number);
  }
}

/** Decodes a URL encoding. */
export function readPercent(source: View, target: View): void {
  readUrl(source, target, codes.plus);
}

/** Decodes a form encoding, in which + is a space. */
export function readFormEncoded(source: View, target: View): void {
  readUrl(source, target, codes.space);
}

function readUrl(source: View, target: View, plus: number): void {
  target.clear(source.length);
  const { symbols, starts, ends, length } = source;
  for (let index = 0; index < length; index += 1) {
    const symbol = symbols[index] as number;
    const byte = symbol === codes.percent ? readHex(source, index + 1, 2) : -1;
    if (byte !== -1) {
      target.add(byte, starts[index] as number, ends[index + 2] as number);
      index += 2;
    } else if (symbol === codes.percent && index + 2 >= length) {
      return;
    } else {
      target.add(symbol === codes.plus ? plus : symbol, starts[index] as number, ends[index] as number);
    }
  }
}

/** Shorter ones can't have a value. */
const minBase64Chars = 6;

/** Base64 and base64url whose groups of four characters begin at multiples of four, after `offset`. */
function readBase64(source: View, target: View, offset: number): void {
  target.clear(source.length);
  const { symbols, starts, ends, length } = source;
  let index = 0;
  while (index < length) {
    let end = index;
    while (end < length && (base64Digits[symbols[end] as number] as number) >= 0) {
      end += 1;
    }
    if (end - index >= minBase64Chars) {
      let before = base64Digits[symbols[index] as number] as number;
      for (let at = index + 1; at < end; at += 1) {
        const digit = base64Digits[symbols[at] as number] as number;
        const bits = 2 * ((at - offset) & 3);
        if (bits > 0) {
          target.add(((before << bits) | (digit >> (6 - bits))) & 255, starts[at - 1] as number, ends[at] as number);
        }
        before = digit;
      }
      target.addGap(source, end);
    }
    index = end + 1;
  }
}

/** Pairs of hexadecimal digits, also with one character between them. `skipped`: how many digits there are before the first pair. */
function readHexPairs(source: View, target: View, skipped: number): void {
  target.clear(source.length);
  const { symbols, starts, ends, length } = source;
  let index = 0;
  while (index < length) {
    if (hexDigit(symbols[index]) === -1) {
      index += 1;
      continue;
    }
    index += skipped;
    for (let byte = readHex(source, index, 2); byte !== -1; byte = readHex(source, index, 2)) {
      target.add(byte, starts[index] as number, ends[index + 1] as number);
      index += 2;
      if (hexSeparators.has(symbols[index] as number) && readHex(source, index + 1, 2) !== -1) {
        index += 1;
      }
    }
    while (index < length && hexDigit(symbols[index]) !== -1) {
      index += 1;
    }
    const isCut = index + 2 === length && hexSeparators.has(symbols[index] as number);
    target.addGap(source, isCut && hexDigit(symbols[index + 1]) !== -1 ? length : index);
  }
}

/** Lists of decimal numbers, as JSON has bytes. */
function readDecimals(source: View, target: View): void {
  target.clear(source.length);
  const { symbols, starts, ends, length } = source;
  let index = 0;
  while (index < length) {
    const start = index;
    let value = 0;
    while (index < length && isDigit(symbols[index])) {
      value = Math.min(1_000, value * 10 + (symbols[index] as number) - codes.zero);
      index += 1;
    }
    if (index === start) {
      index += 1;
      continue;
    }
    if (value < 256) {
      target.add(value, starts[start] as number, ends[index - 1] as number);
    }
    let next = skipSpace(source, index);
    if (symbols[next] === codes.comma) {
      next = skipSpace(source, next + 1);
      if (value < 256 && next < length && isDigit(symbols[next])) {
        index = next;
        continue;
      }
    }
    target.addGap(source, index);
  }
}

/** The encoded forms of bytes in text. */
export const byteForms: readonly Form[] = [
  ...[0, 1, 2, 3].map(
    (offset) =>
      (source: View, target: View): void =>
        readBase64(source, target, offset),
  ),
  ...[0, 1].map(
    (skipped) =>
      (source: View, target: View): void =>
        readHexPairs(source, target, skipped),
  ),
  readDecimals,
];

function addCharacter(target: View, codePoint: number, start: number, end: number): void {
  if (codePoint < 0x80) {
    target.add(codePoint, start, end);
    return;
  }
  for (const byte of Buffer.from(String.fromCodePoint(codePoint))) {
    target.add(byte, start, end);
  }
}

/** -1: there are not so many digits. */
function readHex({ symbols, length }: View, at: number, digits: number): number {
  if (at + digits > length) {
    return -1;
  }
  let value = 0;
  for (let index = at; index < at + digits; index += 1) {
    const digit = hexDigit(symbols[index]);
    if (digit === -1) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

function skipSpace({ symbols, length }: View, from: number): number {
  let at = from;
  while (at < length && spaces.has(symbols[at] as number)) {
    at += 1;
  }
  return at;
}

function hexDigit(symbol: number | undefined): number {
  return hexDigits[symbol ?? gap] as number;
}

function isDigit(symbol: number | undefined): boolean {
  return symbol !== undefined && symbol >= codes.zero && symbol < codes.zero + 10;
}

const codes = {
  space: 0x20,
  percent: 0x25,
  plus: 0x2b,
  comma: 0x2c,
  zero: 0x30,
  backslash: 0x5c,
  u: 0x75,
  x: 0x78,
} as const;

/** The escapes of control characters; any other escaped character stands for itself. */
const escapes: ReadonlyMap<number, number> = new Map(
  Array.from("b\bf\fn\nr\rt\tv\v0\0".matchAll(/(.)(.)/gs), ([, escape = "", character = ""]) => [
    escape.charCodeAt(0),
    character.charCodeAt(0),
  ]),
);

const spaces: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));
const hexSeparators: ReadonlySet<number> = new Set(Buffer.from(" :-"));
const separators: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n:-,"));

/** The digits by their symbol, -1 for other symbols. The same digit can have several characters at the same place of the alphabets. */
function tableOf(...alphabets: readonly string[]): Int8Array {
  const table = new Int8Array(gap + 1).fill(-1);
  for (const alphabet of alphabets) {
    Buffer.from(alphabet).forEach((symbol, digit) => (table[symbol] = digit));
  }
  return table;
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const base64Digits = tableOf(`${letters}+/`, `${letters}-_`);
const hexDigits = tableOf("0123456789abcdef", "0123456789ABCDEF");
