import { expect, test } from "vitest";
import { visibleText } from "../../src/components/visible-text.ts";

test.each([
  ["invoices", "invoices"],
  ["Größe 寸法", "Größe 寸法"],
  ["admin\u202Etxt", String.raw`admin\u{202e}txt`],
  ["a\u0000b\nc\u200B", String.raw`a\u{0}b\u{a}c\u{200b}`],
])("%j is shown as %s", (text, shown) => {
  expect(visibleText(text)).toBe(shown);
});
