import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Configuration, FlowNode } from "../../src/configuration.ts";
import { applyDiff } from "./apply-diff.ts";
import { diffFlows } from "../../src/diff/diff-flows.ts";
import type { FlowsDiff, NodeDiff } from "../../src/diff/differences.ts";
import { formatDiff } from "../../src/diff/format-diff.ts";
import { sets } from "../builders.ts";
import { applyEdits, build, canary, edits, sketch } from "../random-flows.ts";

const noSecrets = sets({});
const base: FlowNode[] = [
  { id: "T", type: "tab", label: "Orders" },
  { id: "a", type: "inject", z: "T", x: 1, y: 1, name: "start", wires: [["b"], []] },
  { id: "b", type: "switch", z: "T", x: 2, y: 1, rules: [{ t: "eq", v: "1" }, { t: "else" }], wires: [["c"]] },
  { id: "c", type: "debug", z: "T", x: 3, y: 1, wires: [] },
  { id: "S", type: "subflow", name: "Retry", in: [{ x: 1, y: 1, wires: [{ id: "s" }] }], out: [] },
  { id: "s", type: "debug", z: "S", x: 1, y: 1, wires: [] },
  { id: "i", type: "subflow:S", z: "T", x: 4, y: 1, wires: [] },
  { id: "g", type: "group", z: "T", x: 0, y: 0, w: 10, h: 10, nodes: ["c"] },
  { id: "broker", type: "mqtt-broker", name: "main", port: 1883 },
];

function change(id: string, properties: Partial<FlowNode>): FlowNode[] {
  return base.map((node) => (node.id === id ? ({ ...node, ...properties } as FlowNode) : node));
}

function diffOf(target: readonly FlowNode[], before = noSecrets, after = before): FlowsDiff {
  return diffFlows({ flows: base, credentials: before }, { flows: target, credentials: after });
}

function nodesOf({ containers }: FlowsDiff): readonly NodeDiff[] {
  return containers.flatMap(({ nodes }) => nodes);
}

describe("the aspects of a change", () => {
  const rows: [change: string, target: readonly FlowNode[], id: string, aspects: NodeDiff["aspects"]][] = [
    ["coordinates", change("a", { x: 5 }), "a", ["position"]],
    ["the size of a group", change("g", { w: 20, h: 30 }), "g", ["position"]],
    ["a width that is no group's", change("c", { w: 20 }), "c", ["properties"]],
    ["the members of a group", change("g", { nodes: ["b", "c"] }), "g", ["group"]],
    ["the group of a node", change("c", { g: "g" }), "c", ["group"]],
    ["another tab", change("c", { z: "S" }), "c", ["container"]],
    ["wires", change("a", { wires: [["c"], []] }), "a", ["wires"]],
    ["the port of a subflow", change("S", { in: [{ x: 9, y: 1, wires: [{ id: "s" }] }] }), "S", ["position"]],
    ["the wires of a port", change("S", { in: [{ x: 1, y: 1, wires: [] }] }), "S", ["wires"]],
    ["a property and coordinates", change("b", { y: 7, property: "payload" }), "b", ["position", "properties"]],
    ["a type", change("c", { type: "complete" }), "c", ["properties"]],
    ["coordinates of a configuration node", change("broker", { x: 1, y: 1 }), "broker", ["properties"]],
  ];
  test.for(rows)("%s", ([, target, id, aspects]) => {
    expect(nodesOf(diffOf(target))).toMatchObject([{ id, change: "changed", aspects, after: undefined }]);
  });

  test("the order: only the node that moved is listed, with its predecessor", () => {
    const moved = base.filter(({ id }) => id !== "a").toSpliced(6, 0, base[1] as FlowNode);
    expect(nodesOf(diffOf(moved))).toMatchObject([{ id: "a", aspects: ["order"], after: "i" }]);
  });

  test("credentials, by name", () => {
    const before = sets({ a: { user: "u", password: "p", realm: "r" } });
    const after = sets({ a: { user: "u", password: "q", token: "t" } });
    expect(nodesOf(diffOf(base, before, after))).toMatchObject([
      {
        id: "a",
        aspects: ["credentials"],
        properties: [],
        credentials: { added: ["token"], removed: ["realm"], changed: ["password"] },
      },
    ]);
  });
});

describe("property changes have the deepest path", () => {
  const path = (target: readonly FlowNode[]) => nodesOf(diffOf(target)).flatMap(({ properties }) => properties);
  const rules = base[2]?.["rules"] as JsonObject[];
  test.for<[string, readonly FlowNode[], object[]]>([
    [
      "in an array of the same length",
      change("b", { rules: [{ t: "eq", v: "2" }, { t: "else" }] }),
      [{ path: ["rules", 0, "v"], before: "1", after: "2" }],
    ],
    [
      "of an appended element",
      change("b", { rules: [...rules, { t: "null" }] }),
      [{ path: ["rules", 2], before: undefined, after: { t: "null" } }],
    ],
    [
      "and an array with elements inserted before others is one value",
      change("b", { rules: [{ t: "null" }, ...rules] }),
      [{ path: ["rules"], before: rules, after: [{ t: "null" }, ...rules] }],
    ],
    [
      "and the wires of an output are one value",
      change("a", { wires: [["c"], []] }),
      [{ path: ["wires", 0], before: ["b"], after: ["c"] }],
    ],
    ["null differs from no value", change("c", { x: null }), [{ path: ["x"], before: 3, after: null }]],
  ])("%s", ([, target, changes]) => {
    expect(path(target)).toEqual(changes);
  });
});

test("containers are in the order of the target, then those that were removed, then global", () => {
  const target: FlowNode[] = [
    { id: "U", type: "tab", label: "New" },
    ...base.filter(({ id, z }) => id !== "S" && z !== "S" && id !== "i"),
    { id: "b2", type: "mqtt-broker" },
  ].map((node): FlowNode => (node.id === "a" ? { ...node, x: 9 } : node));
  expect(diffOf(target).containers.map(({ kind, id, nodes }) => [kind, id, nodes.map((node) => node.id)])).toEqual([
    ["tab", "U", ["U"]],
    ["tab", "T", ["a", "i"]],
    ["subflow", "S", ["S", "s"]],
    ["global", "", ["b2"]],
  ]);
});

const pair = fc
  .oneof(
    { weight: 2, arbitrary: fc.tuple(sketch, edits).map(([from, edits]) => [from, applyEdits(from, edits)] as const) },
    { weight: 1, arbitrary: fc.tuple(sketch, sketch) },
  )
  .map(([from, to]): readonly [Configuration, Configuration] => [build(from), build(to)]);

describe("for random configurations", () => {
  test("applyDiff recreates the target", () => {
    fc.assert(
      fc.property(pair, ([from, to]) => {
        expect(applyDiff(diffFlows(from, to), from.flows)).toEqual(to.flows);
      }),
      { numRuns: 400 },
    );
  });

  test("applyDiff recreates nodes with any properties", () => {
    const key = fc.constantFrom("x", "y", "wires", "nodes", "in", "links", "toString", "", "odd key");
    const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.nat(2),
        fc.constantFrom(null, true, "", "text"),
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(key, tie("value"), { maxKeys: 3, noNullPrototype: true }),
      ),
    }));
    const node = fc
      .dictionary(key, value, { noNullPrototype: true })
      .map((properties) => ({ ...properties, id: "a", type: "t" }));
    fc.assert(
      fc.property(node, node, (from, to) => {
        const [before, after] = [from, to].map((each) => ({ flows: [each], credentials: noSecrets }));
        const diff = diffFlows(before as Configuration, after as Configuration);
        expect(applyDiff(diff, [from])).toEqual([to]);
      }),
      { numRuns: 1000 },
    );
  });

  test("the diff lists the names of credentials exactly, and contains no value", () => {
    fc.assert(
      fc.property(pair, ([from, to]) => {
        const diff = diffFlows(from, to);
        for (const { id, credentials } of nodesOf(diff)) {
          const names = new Set([...(from.credentials.get(id)?.keys() ?? []), ...credentials.added]);
          expect(names.difference(new Set(credentials.removed))).toEqual(new Set(to.credentials.get(id)?.keys()));
        }
        expect(JSON.stringify(diff)).not.toContain(canary);
        expect(formatDiff(diff, { base: from.flows, target: to.flows })).not.toContain(canary);
      }),
      { numRuns: 400 },
    );
  });

  test("nothing changes between a configuration and itself", () => {
    fc.assert(
      fc.property(sketch, (each) => {
        expect(diffFlows(build(each), build(each))).toEqual({ containers: [] });
      }),
    );
  });

  test("each node that changed is listed once", () => {
    fc.assert(
      fc.property(pair, ([from, to]) => {
        const ids = nodesOf(diffFlows(from, to)).map(({ id }) => id);
        expect(ids).toEqual([...new Set(ids)]);
      }),
    );
  });
});
