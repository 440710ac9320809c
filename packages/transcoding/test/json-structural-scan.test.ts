import fc from "fast-check";
import { expect, test } from "vitest";
import { type StructuralScan, scanStructure } from "../src/json/structural-scan.ts";

/** The same, byte by byte. */
function slowly(bytes: Uint8Array): StructuralScan {
  let [colons, open, depth] = [0, 0, 0];
  let [isInside, isEscaped, hasUnicodeEscape] = [false, false, false];
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    hasUnicodeEscape ||= isEscaped && character === "u";
    if (character === '"' && !isEscaped) {
      isInside = !isInside;
    }
    isEscaped = character === "\\" && !isEscaped;
    if (!isInside) {
      colons += Number(character === ":");
      open += Number("[{".includes(character)) - Number("]}".includes(character));
      depth = Math.max(depth, open);
    }
  }
  return { colons, depth, hasUnicodeEscape };
}

test("is what a document shows byte by byte, where blocks end inside of strings, escapes and runs of them too", () => {
  const piece = fc.oneof(
    fc.constantFrom('"', "\\", "u", ":", "{", "}", "[", "]", "é", "[[{", "}]]"),
    fc.nat(70).map((length) => "\\".repeat(length)),
    fc.nat(130).map((length) => "x".repeat(length)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
      const bytes = Buffer.from(pieces.join(""));
      expect(scanStructure(bytes)).toEqual(slowly(bytes));
    }),
    { numRuns: 1000 },
  );
});

test.each([64, 65_536, 3 * 65_536])("goes on behind %i bytes as it stood before", (boundary) => {
  const document = '{"a\\\\":[":\\"{",{"\\u0061":[]}]}';
  for (let before = boundary - document.length - 2; before <= boundary + 1; before++) {
    const bytes = Buffer.from(`[${" ".repeat(before - 1)}${document}]`);
    expect([before, scanStructure(bytes)]).toEqual([before, { colons: 2, depth: 5, hasUnicodeEscape: true }]);
  }
});

test("knows nothing of the document before", () => {
  expect(scanStructure(Buffer.from('[[[{"a":"\\u0061'))).toEqual({ colons: 1, depth: 4, hasUnicodeEscape: true });
  expect(scanStructure(Buffer.from('{"b":1}'))).toEqual({ colons: 1, depth: 1, hasUnicodeEscape: false });
  expect(scanStructure(new Uint8Array())).toEqual({ colons: 0, depth: 0, hasUnicodeEscape: false });
});
