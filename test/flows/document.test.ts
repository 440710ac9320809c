import { expect, test } from "vitest";
import { formatDocument, parseDocument } from "../../src/flows/document.ts";

const kinds: [string, number][] = [
  ["no nodes", 0],
  ["one", 1],
  ["as many as are formatted at once", 1000],
  ["more than that", 2001],
];

test.each(kinds)("a document of %s has the JSON of all of them, and is read back", async (_, length) => {
  const nodes = Array.from({ length }, (_, index) => ({ id: `n${index}`, type: "t", name: "Zoë 🔑" }));
  const document = await formatDocument(nodes);
  expect(Buffer.from(document.json).toString()).toBe(JSON.stringify(nodes));
  expect(document.nodes).toBe(nodes);
  const parsed = parseDocument(document.json);
  expect(parsed.nodes).toEqual(nodes);
  expect(parsed.nodes).toBe(parsed.nodes);
});

test("reads bytes that begin within a larger buffer", () => {
  const bytes = Buffer.from('[1][{"id":"a","type":"t"}][2]').subarray(3, -3);
  expect(parseDocument(bytes).nodes).toEqual([{ id: "a", type: "t" }]);
});
