import type { JsonObject } from "@bufbuild/protobuf";
import { nodeFromJson, nodeToJson } from "@flowgate/client";
import { expect, test } from "vitest";
import { combine, type Target } from "../../../src/pages/deploy/combine.ts";
import { parseSource } from "../../../src/pages/deploy/source.ts";

const active: JsonObject[] = [
  { id: "t1", type: "tab", label: "Heating" },
  { id: "n1", type: "inject", z: "t1", x: 1, y: 1, wires: [["n2"]] },
  { id: "n2", type: "debug", z: "t1", x: 2, y: 1, broker: "c1" },
  { id: "t2", type: "tab", label: "Light" },
  { id: "m1", type: "inject", z: "t2", x: 1, y: 1, wires: [] },
  { id: "s1", type: "subflow", name: "Twice" },
  { id: "s1n", type: "debug", z: "s1", x: 1, y: 1 },
  { id: "c1", type: "mqtt-broker", broker: "old" },
];

function combined(given: unknown, target: Target) {
  const result = combine(
    parseSource(JSON.stringify(given)),
    active.map((node) => nodeFromJson(node)),
    target,
  );
  return { ...result, nodes: result.flows.map((node) => nodeToJson(node)) };
}

const idsOf = (nodes: readonly JsonObject[]) => nodes.map(({ id }) => id);

test("all flows are those that are given", () => {
  const { nodes, credentials } = combined({ flows: [{ id: "x", type: "tab" }], credentials: { $: "abc" } }, "all");
  expect(nodes).toEqual([{ id: "x", type: "tab" }]);
  expect(credentials?.encrypted).toBe("abc");
});

test("a tab is replaced with all of its nodes, in its place, and the rest stays", () => {
  const given = [
    { id: "t1", type: "tab", label: "Warmth" },
    { id: "n2", type: "debug", z: "t1", x: 5, y: 5 },
    { id: "n3", type: "debug", z: "t1", x: 5, y: 9 },
    { id: "c1", type: "mqtt-broker", broker: "new" },
  ];
  const { nodes, paths } = combined(given, "replace");
  expect(idsOf(nodes)).toEqual(["t1", "n2", "t2", "m1", "s1", "s1n", "c1", "n3"]);
  expect(nodes[0]).toEqual(given[0]);
  expect(nodes[6]).toEqual(given[3]);
  expect(paths).toEqual([[0], [1], undefined, undefined, undefined, undefined, [3], [2]]);
});

test("nodes without their tab are replaced alone", () => {
  const { nodes } = combined([{ id: "n2", type: "debug", z: "t1", x: 7, y: 7 }], "replace");
  expect(idsOf(nodes)).toEqual(idsOf(active));
  expect(nodes[2]).toMatchObject({ x: 7 });
});

test("no credentials are sent that were not given", () => {
  const { flows, credentials } = combined([{ id: "t1", type: "tab" }], "replace");
  expect(credentials).toBeUndefined();
  expect(flows.filter((node) => node.credentials !== undefined)).toEqual([]);
});

test("copies have new ids, and lead to each other", () => {
  const given = {
    flows: [
      { id: "t1", type: "tab", label: "Heating" },
      { id: "g1", type: "group", z: "t1", nodes: ["n1"], x: 0, y: 0 },
      { id: "n1", type: "inject", z: "t1", g: "g1", x: 1, y: 1, wires: [["n2", "fresh"]], info: "n2" },
      { id: "n2", type: "debug", z: "t1", x: 2, y: 1, broker: "c1" },
      { id: "fresh", type: "catch", z: "t1", x: 2, y: 1, scope: ["n1"] },
      { id: "s1", type: "subflow", name: "other" },
      { id: "s1n", type: "debug", z: "s1", x: 9, y: 9 },
      { id: "c1", type: "mqtt-broker", broker: "new" },
    ],
    credentials: { n1: { user: "ada" }, c1: { password: "x" } },
  };
  const { nodes, credentials } = combined(given, "copies");
  expect(nodes.slice(0, active.length)).toEqual(active);
  const copies = nodes.slice(active.length);
  expect(copies).toHaveLength(5);
  const [tab, group, inject, debug, fresh] = copies;
  expect(new Set([...idsOf(copies), ...idsOf(active)]).size).toBe(active.length + 5);
  expect(tab?.["id"]).toMatch(/^[\da-f]{16}$/);
  expect(group).toMatchObject({ id: "g1", z: tab?.["id"], nodes: [inject?.["id"]] });
  expect(inject).toMatchObject({ z: tab?.["id"], g: "g1", wires: [[debug?.["id"], "fresh"]], info: "n2" });
  // The configuration node that exists is used.
  expect(debug).toMatchObject({ broker: "c1" });
  expect(fresh).toMatchObject({ id: "fresh", scope: [inject?.["id"]] });
  expect(Object.keys(credentials?.nodes ?? {})).toEqual([inject?.["id"]]);
});

test("copies of nodes whose tab does not exist get one", () => {
  const { nodes } = combined([{ id: "n1", type: "inject", z: "gone", x: 1, y: 1, wires: [] }], "copies");
  const [tab, node] = nodes.slice(active.length);
  expect(tab).toMatchObject({ type: "tab", label: "Imported" });
  expect(node).toMatchObject({ z: tab?.["id"] });
});

test.each<Target>(["replace", "copies"])(
  "encrypted credentials, which are those of all flows, are not for %s",
  (target) => {
    expect(() => combined({ flows: [], credentials: { $: "abc" } }, target)).toThrow(
      "encrypted credentials are those of all flows: replace all flows, or remove them",
    );
  },
);

test("the given flows remain as they are, since they may be combined again", () => {
  const source = parseSource(JSON.stringify([{ id: "n1", type: "x", z: "gone", x: 1, y: 1, wires: [["n1"]] }]));
  const before = source.nodes.map(({ node }) => nodeToJson(node));
  combine(
    source,
    active.map((node) => nodeFromJson(node)),
    "copies",
  );
  expect(source.nodes.map(({ node }) => nodeToJson(node))).toEqual(before);
});
