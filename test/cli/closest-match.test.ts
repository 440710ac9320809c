import { expect, test } from "vitest";
import { closestMatch } from "../../src/cli/read-options.ts";

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
])("%s is closest to %s", (word, meant) => {
  expect(closestMatch(word, words)).toBe(meant);
});
