import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Configuration, FlowNode } from "../src/configuration.ts";
import { diffFlows } from "../src/diff/diff-flows.ts";
import { mergeFlows } from "../src/merge/merge-flows.ts";
import type { MergeResult } from "../src/merge/sides.ts";
import { parseFlows, toSubmittedNodes } from "../src/parse-flows.ts";
import { sets } from "./builders.ts";
import { applyEdits, build, canary, edits, sketch } from "./random-flows.ts";

const base: FlowNode[] = [
  { id: "T", type: "tab", label: "Orders" },
  { id: "a", type: "inject", z: "T", x: 1, y: 1, wires: [["b"]] },
  { id: "b", type: "debug", z: "T", x: 2, y: 1, wires: [] },
  { id: "U", type: "tab", label: "Returns" },
  { id: "S", type: "subflow", name: "S" },
  { id: "R", type: "subflow", name: "R" },
  { id: "g", type: "group", z: "T", x: 0, y: 0, w: 9, h: 9, nodes: [] },
  { id: "h", type: "group", z: "T", x: 0, y: 0, w: 9, h: 9, nodes: [] },
  { id: "broker", type: "mqtt-broker" },
];
const secrets = sets({ a: { password: "1" }, broker: { password: "1" } });

type Changes = { readonly flows?: readonly FlowNode[]; readonly credentials?: typeof secrets };

function merge(ours: Changes, theirs: Changes): MergeResult {
  const [origin, one, other] = [{}, ours, theirs].map((changes) => ({ flows: base, credentials: secrets, ...changes }));
  return mergeFlows(origin as Configuration, one as Configuration, other as Configuration);
}

function change(id: string, properties: Partial<FlowNode>): FlowNode[] {
  return base.map((node) => (node.id === id ? ({ ...node, ...properties } as FlowNode) : node));
}

const without = (id: string): FlowNode[] => base.filter((node) => node.id !== id);

function summarize(result: MergeResult): string[] {
  return result.kind === "merged"
    ? result.changes.map(({ nodeId, from }) => `${nodeId} from ${from}`)
    : result.conflicts.map(({ nodeId, ours, theirs, message }) => `${nodeId} ${ours}/${theirs}: ${message}`);
}

describe("merges", () => {
  test("changes of different nodes", () => {
    const result = merge({ flows: change("a", { topic: "ours" }) }, { flows: change("b", { active: false }) });
    expect(summarize(result)).toEqual(["a from ours", "b from theirs"]);
    const flows = change("a", { topic: "ours" }).map((node) => (node.id === "b" ? { ...node, active: false } : node));
    expect(result).toMatchObject({ configuration: { flows, credentials: secrets } });
  });

  test("the same change of both sides", () => {
    const changes = { flows: change("a", { topic: "same" }) };
    expect(summarize(merge(changes, changes))).toEqual(["a from both"]);
  });

  test("a moved node with a change of the other side", () => {
    const result = merge({ flows: change("a", { x: 7 }) }, { flows: change("a", { topic: "theirs" }) });
    expect(summarize(result)).toEqual(["a from both"]);
    expect(result).toMatchObject({ configuration: { flows: change("a", { x: 7, topic: "theirs" }) } });
  });

  test("a node that both moved: it is where the deployment moved it", () => {
    const result = merge({ flows: change("a", { x: 7 }) }, { flows: change("a", { x: 8, y: 8 }) });
    expect(result).toMatchObject({ configuration: { flows: change("a", { x: 7 }) } });
  });

  test("credentials by node", () => {
    const ours = sets({ a: { password: "2" }, broker: { password: "1" } });
    const theirs = sets({ a: { password: "1" } });
    const result = merge({ credentials: ours }, { credentials: theirs });
    expect(summarize(result)).toEqual(["a from ours", "broker from theirs"]);
    expect(result).toMatchObject({ configuration: { flows: base, credentials: sets({ a: { password: "2" } }) } });
  });

  test("added nodes after those that they follow, and a new order", () => {
    const ours = [...base.slice(0, 2), { id: "n", type: "debug", z: "T", x: 1, y: 1 }, ...base.slice(2)];
    const result = merge(
      { flows: ours },
      { flows: [...base.toReversed(), { id: "m", type: "debug", z: "U", x: 1, y: 1 }] },
    );
    expect(result.kind === "merged" && result.configuration.flows.map(({ id }) => id).join(" ")).toBe(
      "broker h g R S U b a n T m",
    );
  });

  test("the removal of a tab with changes of another", () => {
    const theirs = base.map((node) => (node.id === "U" ? { ...node, label: "New" } : node));
    const ours = base.filter(({ id, z }) => id !== "T" && z !== "T");
    expect(summarize(merge({ flows: ours }, { flows: theirs }))).toEqual([
      "T from ours",
      "a from ours",
      "b from ours",
      "U from theirs",
      "g from ours",
      "h from ours",
    ]);
  });
});

describe("reports a conflict of", () => {
  const added: FlowNode = { id: "n", type: "mqtt in", z: "U", x: 1, y: 1, broker: "broker", wires: [] };
  const cases: [what: string, ours: Changes, theirs: Changes, conflicts: string[]][] = [
    [
      "different changes of a node",
      { flows: change("a", { topic: "ours" }) },
      { flows: change("a", { topic: "theirs" }) },
      ["a changed/changed: the deployment and the active flows change this node in different ways"],
    ],
    [
      "a change of a node and one of its credentials",
      { flows: change("a", { topic: "ours" }) },
      { credentials: sets({ a: { password: "2" }, broker: { password: "1" } }) },
      ["a changed/changed: the deployment and the active flows change this node in different ways"],
    ],
    [
      "different nodes of the same id",
      { flows: [...base, added] },
      { flows: [...base, { ...added, topic: "theirs" }] },
      ["n added/added: the deployment and the active flows change this node in different ways"],
    ],
    [
      "a node that one side removes and the other changes",
      { flows: without("b") },
      { flows: change("b", { active: false }) },
      ["b removed/changed: the deployment removes this node, which the active flows change"],
    ],
    [
      "a tab that one side removes and the other adds a node to",
      { flows: [...base, added] },
      { flows: without("U") },
      [
        "U none/removed: the active flows remove this node, and the deployment refers to it in nodes that it adds or changes: n",
      ],
    ],
    [
      "a configuration node that one side removes and the other begins to use",
      { flows: without("broker") },
      { flows: [...base, added] },
      [
        "broker removed/none: the deployment removes this node, and the active flows refer to it in nodes that they add or change: n",
      ],
    ],
    [
      "a subflow that one side removes and the other adds an instance of",
      { flows: without("S") },
      { flows: [...base, { ...added, type: "subflow:S" }] },
      [
        "S removed/none: the deployment removes this node, and the active flows refer to it in nodes that they add or change: n",
      ],
    ],
    [
      "groups that the sides put into each other",
      { flows: change("g", { g: "h" }) },
      { flows: change("h", { g: "g" }) },
      [
        'g changed/changed: after the merge, the group "g" must not contain itself, directly or through other groups',
        'h changed/changed: after the merge, the group "h" must not contain itself, directly or through other groups',
      ],
    ],
  ];
  test.for(cases)("%s", ([, ours, theirs, conflicts]) => {
    expect(summarize(merge(ours, theirs))).toEqual(conflicts);
  });
});

describe("for random changes", () => {
  const changes = fc
    .tuple(sketch, edits, edits)
    .map(([origin, one, other]): [Configuration, Configuration, Configuration] => [
      build(origin),
      build(applyEdits(origin, one)),
      build(applyEdits(origin, other)),
    ]);

  test("a merge is valid and contains both changes", () => {
    let merges = 0;
    fc.assert(
      fc.property(changes, ([origin, ours, theirs]) => {
        const result = mergeFlows(origin, ours, theirs);
        if (result.kind === "conflict") {
          return;
        }
        merges += 1;
        const { flows, credentials } = result.configuration;
        expect(parseFlows(toSubmittedNodes(flows)).flows).toEqual(flows);
        const merged = new Map(flows.map((node) => [node.id, node]));
        const [byUs, byThem] = [changedIds(origin, ours), changedIds(origin, theirs)];
        for (const [side, ids] of [
          [ours, byUs.difference(byThem)],
          [theirs, byThem.difference(byUs)],
        ] as const) {
          for (const id of ids) {
            expect(merged.get(id)).toEqual(side.flows.find((node) => node.id === id));
            expect(credentials.get(id)).toEqual(side.credentials.get(id));
          }
        }
      }),
      { numRuns: 500 },
    );
    expect(merges).toBeGreaterThan(100);
  });

  test("without a change of the other side, the result is the side", () => {
    fc.assert(
      fc.property(changes, ([origin, ours]) => {
        expect(mergeFlows(origin, ours, origin)).toMatchObject({ kind: "merged", configuration: ours });
        expect(mergeFlows(origin, origin, ours)).toMatchObject({ kind: "merged", configuration: ours });
        expect(mergeFlows(origin, ours, ours)).toMatchObject({ kind: "merged", configuration: ours });
      }),
    );
  });

  test("changes that are in conflict for one side are so for the other", () => {
    fc.assert(
      fc.property(changes, ([origin, ours, theirs]) => {
        const ids = (result: MergeResult) =>
          result.kind === "conflict" ? result.conflicts.map(({ nodeId }) => nodeId).toSorted() : [];
        expect(ids(mergeFlows(origin, ours, theirs))).toEqual(ids(mergeFlows(origin, theirs, ours)));
        expect(summarize(mergeFlows(origin, ours, theirs)).join("\n")).not.toContain(canary);
      }),
    );
  });
});

function changedIds(from: Configuration, to: Configuration): Set<string> {
  return new Set(diffFlows(from, to).containers.flatMap(({ nodes }) => nodes.map(({ id }) => id)));
}
