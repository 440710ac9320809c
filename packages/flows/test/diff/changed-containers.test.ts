import { expect, test } from "vitest";
import type { FlowNode } from "../../src/configuration.ts";
import { type ChangedContainer, findChangedContainers } from "../../src/diff/changed-containers.ts";
import { sets } from "../builders.ts";

const tab = (id: string, label = id): FlowNode => ({ id, type: "tab", label });
const node = (id: string, z?: string, properties: object = {}): FlowNode => ({
  id,
  type: "debug",
  ...(z !== undefined && { z }),
  ...properties,
});
const flows = [tab("a"), tab("b"), node("a1", "a"), node("b1", "b"), node("c")];
const onTab = (id: string, ...labels: (string | undefined)[]): ChangedContainer => ({
  id,
  kind: "tab",
  labels: labels.length === 0 ? [id] : labels,
});
const subflow: FlowNode = { id: "s", type: "subflow", name: "s" };
const outside: ChangedContainer = { id: "", kind: "global", labels: [] };

test.each<[string, readonly FlowNode[], readonly FlowNode[], readonly ChangedContainer[]]>([
  ["nothing", flows, flows, []],
  ["the order of nodes and properties", [tab("a"), tab("b")], [tab("b"), { label: "a", type: "tab", id: "a" }], []],
  ["a node", flows, [...flows, node("a2", "a")], [onTab("a")]],
  ["a removed node", flows, flows.filter(({ id }) => id !== "b1"), [onTab("b")]],
  [
    "a moved node",
    [tab("a"), tab("b"), node("n", "a")],
    [tab("a"), tab("b"), node("n", "b")],
    [onTab("b"), onTab("a")],
  ],
  ["a node that becomes a tab", [tab("a"), node("n", "a")], [tab("a"), tab("n")], [onTab("n"), onTab("a")]],
  ["a renamed tab", [tab("a", "old")], [tab("a", "new")], [onTab("a", "old", "new")]],
  ["a new tab", [], [tab("a", "new")], [onTab("a", "new")]],
  ["a removed tab", [tab("a", "old")], [], [onTab("a", "old")]],
  ["a tab without a label", [], [{ id: "a", type: "tab", name: "a" }], [onTab("a", undefined)]],
  ["a node on no tab", flows, [...flows, node("d")], [outside]],
  ["a node whose tab is not text", [], [{ id: "n", type: "debug", z: 1 }], [outside]],
  ["a node on a missing tab", [], [node("n", "x")], [onTab("x", undefined)]],
  [
    "a missing tab that gets its node",
    [node("n", "x")],
    [node("n", "x"), tab("x", "new")],
    [onTab("x", undefined, "new")],
  ],
  ["a tab that leaves its nodes", [node("n", "x"), tab("x", "old")], [node("n", "x")], [onTab("x", "old", undefined)]],
  ["a node in a subflow", [subflow], [subflow, node("n", "s")], [{ id: "s", kind: "subflow", labels: [undefined] }]],
  ["a tab that becomes a subflow", [tab("s")], [subflow], [{ id: "s", kind: "subflow", labels: ["s", undefined] }]],
])("finds where the change of %s is", (_name, base, target, expected) => {
  const credentials = new Map();
  expect(findChangedContainers({ flows: base, credentials }, { flows: target, credentials })).toEqual(expected);
});

test("touched nodes count as changed", () => {
  const configuration = { flows, credentials: new Map() };
  const touched = new Set(["b1", "missing"]);
  expect(findChangedContainers(configuration, configuration, touched)).toEqual([onTab("b")]);
});

test.each<[Record<string, Record<string, string>>, Record<string, Record<string, string>>]>([
  [{ b1: { user: "x" } }, { b1: { user: "y" } }],
  [{ b1: { user: "x" } }, { b1: { name: "x" } }],
  [{ b1: { user: "x" } }, {}],
  [{}, { b1: { user: "x" } }],
])("a change of credentials from %j to %j is one of the tab", (before, after) => {
  const others = { a1: { user: "z" } };
  const base = { flows, credentials: sets({ ...others, ...before }) };
  const target = { flows, credentials: sets({ ...others, ...after }) };
  expect(findChangedContainers(base, target)).toEqual([onTab("b")]);
  expect(findChangedContainers(base, { ...base, credentials: sets({ ...others, ...before }) })).toEqual([]);
});
