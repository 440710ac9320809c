import fc from "fast-check";

/**
 * A character of any code point but the surrogates, which is what `unit: "binary"` of `fc.string` means. That one takes more than a
 * second once in each process.
 */
export const codePoint = fc
  .oneof(fc.integer({ max: 0xd7ff, min: 0 }), fc.integer({ max: 0x10ffff, min: 0xe000 }))
  .map((code) => String.fromCodePoint(code));
