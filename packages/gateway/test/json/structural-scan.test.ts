import fc from "fast-check";
import { expect, test } from "vitest";
import { type StructuralScan, scanStructure } from "../../src/json/structural-scan.ts";
import { propertyRuns } from "../property-runs.ts";

/** The same as a state machine that reads one character at a time. */
function expected(bytes: Uint8Array): StructuralScan {
  let [colons, commas, containers, open, depth] = [0, 0, 0, 0, 0];
  let [isInside, isEscaped, hasUnicodeEscape] = [false, false, false];
  let [hasEscape, hasEscapedKey] = [false, false];
  for (const byte of bytes) {
    const character = String.fromCharCode(byte);
    hasUnicodeEscape ||= isEscaped && character === "u";
    if (character === '"' && !isEscaped) {
      isInside = !isInside;
      hasEscape &&= !isInside;
    }
    isEscaped = isInside && character === "\\" && !isEscaped;
    hasEscape ||= isEscaped;
    if (!isInside) {
      hasEscapedKey ||= character === ":" && hasEscape;
      colons += Number(character === ":");
      commas += Number(character === ",");
      containers += Number("[{".includes(character));
      open += Number("[{".includes(character)) - Number("]}".includes(character));
      depth = Math.max(depth, open);
    }
  }
  return { colons, commas, containers, depth, hasUnicodeEscape, hasEscapedKey };
}

test("counts colons, commas, containers and depth outside of strings, whatever escapes the strings contain", () => {
  const piece = fc.oneof(
    fc.constantFrom('"', "\\", "u", ":", ",", "{", "}", "[", "]", "é", "[[{", "}]]"),
    fc.nat(70).map((length) => "\\".repeat(length)),
    fc.nat(130).map((length) => "x".repeat(length)),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
      const bytes = Buffer.from(pieces.join(""));
      expect(scanStructure(bytes)).toEqual(expected(bytes));
    }),
    propertyRuns(1000),
  );
});

test("distinguishes keys with escapes from values", () => {
  expect(scanStructure(Buffer.from(String.raw`{"a":"\n","b":"\""}`)).hasEscapedKey).toBe(false);
  expect(scanStructure(Buffer.from(String.raw`{"a":"\n","\"" :1}`)).hasEscapedKey).toBe(true);
});

test("counts each document from zero", () => {
  expect(scanStructure(Buffer.from('[[[{"a":"\\u0061'))).toEqual({
    colons: 1,
    commas: 0,
    containers: 4,
    depth: 4,
    hasUnicodeEscape: true,
    hasEscapedKey: false,
  });
  expect(scanStructure(Buffer.from('{"b":1}'))).toEqual({
    colons: 1,
    commas: 0,
    containers: 1,
    depth: 1,
    hasUnicodeEscape: false,
    hasEscapedKey: false,
  });
  expect(scanStructure(new Uint8Array())).toEqual({
    colons: 0,
    commas: 0,
    containers: 0,
    depth: 0,
    hasUnicodeEscape: false,
    hasEscapedKey: false,
  });
});
