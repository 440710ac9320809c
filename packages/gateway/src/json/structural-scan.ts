const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const LOWER_U = 0x75;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** Measurements of a JSON document's bytes, taken without parsing. Meaningless for malformed JSON. */
export type StructuralScan = {
  /** Outside of strings: the number of members of all objects. */
  readonly colons: number;
  /** Outside of strings. */
  readonly commas: number;
  readonly containers: number;
  /** The greatest number of arrays and objects that are nested in each other. */
  readonly depth: number;
  /** Some string has an escape `\u`. */
  readonly hasUnicodeEscape: boolean;
  /** Some key has an escape. */
  readonly hasEscapedKey: boolean;
};

export function scanStructure(bytes: Uint8Array): StructuralScan {
  const { length } = bytes;
  let colons = 0;
  let commas = 0;
  let containers = 0;
  let open = 0;
  let depth = 0;
  let hasUnicodeEscape = false;
  let hasEscapedKey = false;
  let isEscaped = false;
  for (let at = 0; at < length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        isEscaped = false;
        for (at++; at < length && bytes[at] !== QUOTE; at++) {
          if (bytes[at] === BACKSLASH) {
            at++;
            isEscaped = true;
            hasUnicodeEscape ||= bytes[at] === LOWER_U;
          }
        }
        break;
      case COLON:
        colons++;
        hasEscapedKey ||= isEscaped;
        break;
      case COMMA:
        commas++;
        break;
      case OPEN_BRACKET:
      case OPEN_BRACE:
        containers++;
        open++;
        if (open > depth) {
          depth = open;
        }
        break;
      case CLOSE_BRACKET:
      case CLOSE_BRACE:
        open--;
        break;
      default:
    }
  }
  return { colons, commas, containers, depth, hasUnicodeEscape, hasEscapedKey };
}
