import { expect, test } from "vitest";
import { describeScopes, placeOf, searchScopes } from "../../../src/pages/context/scopes.ts";

const node = (id: string, type: string, fields: { label?: string; name?: string; z?: string } = {}) => {
  const { label, ...properties } = fields;
  return { id, type, properties, ...(label !== undefined && { label }) };
};
const nodes = [
  node("T", "tab", { label: "Greetings" }),
  node("f/1", "function", { z: "T", name: "Counter" }),
  node("g", "function", { z: "T", name: "" }),
  node("c", "server"),
];
const keys = (scope: string, ...names: string[]) => ({ scope, store: "default", keys: names, truncated: false });

test("scopes have the names of the flows, the global one first, then tabs, then nodes", () => {
  const scopes = describeScopes(
    ["node/g", "node/f%2F1", "flow/T", "node/gone-1", "global"].map((scope) => keys(scope, "a")),
    nodes,
  );
  expect(scopes.map(({ scope, label, path }) => [scope, label, path])).toEqual([
    ["global", "global", undefined],
    ["flow/T", "Greetings", "/flows/T"],
    ["node/f%2F1", "Counter", "/flows/T?node=f%2F1"],
    ["node/g", "function g", "/flows/T?node=g"],
    ["node/gone-1", "gone-1", undefined],
  ]);
});

test("a configuration node outside of tabs has a place of its own", () => {
  expect(describeScopes([keys("node/c", "a")], nodes)).toMatchObject([{ label: "server c", path: "/flows/c" }]);
});

test("a tab that exists only as the z of nodes has its id as name, and a path", () => {
  const selection = [{ id: "f", type: "function", properties: { z: "gone", x: 1, y: 1 } }];
  expect(describeScopes([keys("flow/gone", "a")], selection)).toMatchObject([{ label: "gone", path: "/flows/gone" }]);
});

test("a search finds keys, and all keys of the scopes that it finds", () => {
  const scopes = describeScopes([keys("global", "counter", "other"), keys("flow/T", "x", "y")], nodes);
  const found = (text: string) => searchScopes(scopes, text).map((each) => [each.scope, each.keys]);
  expect(found("COUNT")).toEqual([["global", ["counter"]]]);
  expect(found("greet")).toEqual([["flow/T", ["x", "y"]]]);
  expect(found("nothing")).toEqual([]);
  expect(found("")).toHaveLength(2);
});

test.each([
  ["counter", "global/counter"],
  ["$a_1", "global/$a_1"],
  ["a.b", 'global/"a.b"'],
  ["0", 'global/"0"'],
  ["a b", 'global/"a b"'],
  ['a "b', `global/'a "b'`],
  [`a "b 'c`, undefined],
])("names the value of the key %s", (key, expected) => {
  expect(placeOf("global", key)).toBe(expected);
});
