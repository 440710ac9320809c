import { expect, test } from "vitest";
import { findTypes, formatDocument, parseDocument } from "../src/document.ts";

const kinds: [string, number][] = [
  ["no nodes", 0],
  ["one node", 1],
  ["one slice", 1000],
  ["several slices", 2001],
];

test.each(kinds)("a document of %s contains the JSON of all nodes, and can be parsed", async (_, length) => {
  const nodes = Array.from({ length }, (_, index) => ({ id: `n${index}`, type: "t", name: "Zoë 🔑" }));
  const document = formatDocument(nodes);
  expect(Buffer.from(document.json).toString()).toBe(JSON.stringify(nodes));
  expect(document.nodes).toBe(nodes);
  const parsed = parseDocument(document.json);
  expect(parsed.nodes).toEqual(nodes);
  expect(parsed.nodes).toBe(parsed.nodes);
});

test("parses bytes that are part of a larger buffer", () => {
  const bytes = Buffer.from('[1][{"id":"a","type":"t"}][2]').subarray(3, -3);
  expect(parseDocument(bytes).nodes).toEqual([{ id: "a", type: "t" }]);
});

// JSON.parse of Node 26.10 takes the second key for that of the earlier document.
test("has the keys with escapes that were formatted", async () => {
  const earlier = formatDocument([{ id: "a", type: "t", table: { x: 1, "\\": 1 } }]);
  const later = formatDocument([{ id: "a", type: "t", table: { x: 1, "\n": 1 } }]);
  expect(parseDocument(earlier.json).nodes[0]?.["table"]).toEqual({ x: 1, "\\": 1 });
  expect(parseDocument(later.json).nodes[0]?.["table"]).toEqual({ x: 1, "\n": 1 });
});

test("types that are known, and those of no node, are found without parsing", () => {
  const document = parseDocument(Buffer.from("this is parsed only on demand"), 1, new Map([["a", "tab"]]));
  expect(findTypes(document, new Set(["a"]))).toEqual(new Map([["a", "tab"]]));
  expect(findTypes(parseDocument(document.json), new Set())).toEqual(new Map());
  expect(() => findTypes(document, new Set(["b"]))).toThrow(SyntaxError);
});
