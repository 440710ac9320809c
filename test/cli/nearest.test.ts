import { expect, test } from "vitest";
import { nearest } from "../../src/cli/nearest.ts";

const words = ["host", "port", "dataDir", "runtime", "limits", "log", "bodyBytes"];

test.each([
  ["prot", "port"],
  ["hots", "host"],
  ["datadir", "dataDir"],
  ["bodyBites", "bodyBytes"],
  ["runtimes", "runtime"],
  ["body", "bodyBytes"],
  ["bod", undefined],
  ["lgo", undefined],
  ["x", undefined],
  ["", undefined],
  ["__proto__", undefined],
  ["b".repeat(100_000), undefined],
])("%s was probably meant to be %s", (word, meant) => {
  expect(nearest(word, words)).toBe(meant);
});
