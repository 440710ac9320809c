import { expect, test } from "vitest";
import { formatBytes, formatNumber } from "../../src/components/format.ts";

test.each([
  [0, "0 B"],
  [1023, "1,023 B"],
  [1024, "1 KiB"],
  [43_516_000, "41.5 MiB"],
  [4_395_630_592, "4.09 GiB"],
  [5e15, "4,547 TiB"],
])("%d bytes are %s", (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test.each([
  [0.01234, "0.0123"],
  [9.999, "10"],
  [1234.5, "1,235"],
])("%d is shown as %s", (value, text) => {
  expect(formatNumber(value)).toBe(text);
});
