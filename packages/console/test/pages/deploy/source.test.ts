import { nodeToJson } from "@flowgate/client";
import { describe, expect, test } from "vitest";
import { SourceError, type SourceProblem } from "../../../src/pages/deploy/source-problem.ts";
import { locateProblem, parseSource } from "../../../src/pages/deploy/source.ts";

const tab = { id: "t", type: "tab", label: "Heating" };
const node = { id: "n", type: "inject", z: "t", x: 1, y: 2, wires: [["m"]] };

const nodesOf = (text: string) => parseSource(text).nodes.map((each) => nodeToJson(each.node));

function problemsOf(text: string): readonly SourceProblem[] {
  try {
    parseSource(text);
  } catch (error) {
    if (error instanceof SourceError) {
      return error.problems;
    }
    throw error;
  }
  return [];
}

describe("the forms of flows", () => {
  test("an array, as Node-RED exports it, with a byte order mark too", () => {
    expect(parseSource(JSON.stringify([tab, node]))).toMatchObject({ rev: undefined, modules: [], isWhole: false });
    expect(nodesOf(`\uFEFF${JSON.stringify([tab, node])}`)).toEqual([tab, node]);
  });

  test("an object with flows, as the API returns it", () => {
    const credentials = { n: { user: "ada" } };
    const modules = [{ name: "contrib", version: "^1" }];
    const source = parseSource(JSON.stringify({ flows: [tab, node], rev: "r1", credentials, modules }));
    expect(source).toMatchObject({ rev: "r1", modules, isWhole: true });
    expect(source.credentials?.nodes["n"]?.values).toEqual({ user: "ada" });
  });

  test("encrypted credentials", () => {
    expect(parseSource('{"flows": [], "credentials": {"$": "abc"}}').credentials?.encrypted).toBe("abc");
  });

  test("one flow with its nodes, as the API returns it", () => {
    const text = JSON.stringify({
      id: "t",
      label: "Heating",
      env: [],
      nodes: [{ id: "n", type: "inject", x: 1, y: 2, wires: [] }],
      configs: [{ id: "c", type: "tls-config" }],
      rev: "r2",
    });
    expect(nodesOf(text)).toEqual([
      { id: "t", type: "tab", label: "Heating", env: [] },
      { id: "n", type: "inject", x: 1, y: 2, wires: [], z: "t" },
      { id: "c", type: "tls-config", z: "t" },
    ]);
    expect(parseSource(text)).toMatchObject({ rev: "r2", isWhole: false });
  });

  test("what all flows share, as the API returns it", () => {
    const subflow = { id: "s", name: "Twice", nodes: [{ id: "n", type: "x" }], configs: [] };
    const text = JSON.stringify({ id: "global", configs: [{ id: "c", type: "tls-config" }], subflows: [subflow] });
    expect(nodesOf(text)).toEqual([
      { id: "c", type: "tls-config" },
      { id: "s", type: "subflow", name: "Twice" },
      { id: "n", type: "x", z: "s" },
    ]);
  });

  test("a node without credentials gets none", () => {
    const [first] = parseSource(JSON.stringify([node])).nodes;
    expect(first?.node.credentials).toBeUndefined();
  });
});

test.each<[text: string, line: number, column: number, path: string, message: string]>([
  ["", 1, 1, "", "There is nothing: an array of nodes was expected, [] for none"],
  ["[\n  {,\n]", 2, 4, "", "not valid JSON: a key in double quotes was expected"],
  ['[\n  {"id": "a",\n   "id": "b"}\n]', 2, 10, "[0].id", "duplicate key"],
  ['[{"__proto__": 1}]', 1, 16, "[0].__proto__", "this key is not allowed"],
  ["7", 1, 1, "", "must be an array of nodes, as Node-RED exports it, or an object with flows, as the API returns it"],
  ['{"flows": {}}', 1, 11, "flows", "must be an array of nodes"],
  ['{"flows": [], "x": 1}', 1, 20, "x", "unknown key: only flows, rev, credentials and modules are allowed"],
  ['[\n  {"id": "a", "type": "tab"},\n  {"id": "b"}\n]', 3, 3, "[1].type", "is missing: must be a text"],
  ['{"flows": [\n{"id": 7, "type": "tab"}]}', 2, 8, "flows[0].id", "must be a text"],
  [
    '[{"id": "a", "type": "x", "n": [12345678901234567891]}]',
    1,
    33,
    "[0].n[0]",
    "this integer is too large to be represented exactly: write it as a text",
  ],
  ['{"flows": [], "credentials": {"n": {"user": 1}}}', 1, 45, "credentials.n.user", "must be a text"],
  [
    '{"flows": [], "modules": [{"version": "1"}]}',
    1,
    27,
    "modules[0]",
    "must be an object with a name, and perhaps version and integrity",
  ],
])("%j is rejected at its place", (text, line, column, path, message) => {
  expect(problemsOf(text)).toEqual([{ line, column, path, message }]);
});

test("an integer that a double represents exactly is the same afterwards", () => {
  expect(nodesOf('[{"id": "a", "type": "x", "n": 18014398509481984, "f": 1e25}]')).toEqual([
    { id: "a", type: "x", n: 18014398509481984, f: 1e25 },
  ]);
});

test("all problems are found, in their order, but no more than anyone would read", () => {
  const text = '[{"id": "a", "type": "x", "n": 12345678901234567891}, {}, 3]';
  expect(problemsOf(text).map(({ path }) => path)).toEqual(["[0].n", "[1].id", "[2]"]);
  expect(problemsOf(JSON.stringify(Array.from({ length: 100 }, () => ({}))))).toHaveLength(20);
});

test("what the service rejects is located in the text", () => {
  const text = '{"flows": [\n  {"id": "a", "type": "x", "wires": [1]}]}';
  const pathOf = (index: number) => (index === 4 ? ["flows", 0] : undefined);
  expect(locateProblem(text, "flows[4].wires[0]: must be an array of node ids", pathOf)).toEqual({
    line: 2,
    column: 38,
    path: "flows[0].wires[0]",
    message: "must be an array of node ids",
  });
  // A node that was active before is not in the text.
  expect(locateProblem(text, "flows[3].wires: must be an array", pathOf)).toBeUndefined();
  expect(locateProblem(text, "the service is shutting down", pathOf)).toBeUndefined();
});
