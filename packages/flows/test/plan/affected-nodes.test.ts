import { describe, expect, test } from "vitest";
import type { FlowNode } from "../../src/configuration.ts";
import { findAffected } from "../../src/plan/affected-nodes.ts";
import { sets } from "../builders.ts";

const tabs: FlowNode[] = ["T", "U"].map((id) => ({ id, type: "tab", label: `tab ${id}` }));

function on(z: string, id: string, type: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type, z, x: 1, y: 1, wires: [], ...properties };
}

const wired = (...targets: string[]): Partial<FlowNode> => ({ wires: [targets] });
const changed = (node: FlowNode): FlowNode => ({ ...node, name: "changed" });

/** The affected nodes when `ids` are changed, in any order. */
function affectedBy(flows: readonly FlowNode[], ...ids: string[]): readonly string[] | "all" {
  const next = flows.map((node) => (ids.includes(node.id) ? changed(node) : node));
  const affected = findAffected(
    { flows: [...tabs, ...flows], credentials: new Map() },
    { flows: [...tabs, ...next], credentials: new Map() },
  );
  return affected === "all" ? affected : affected.toSorted();
}

/** a → b → c, and d by itself. */
const chain = [on("T", "a", "inject", wired("b")), on("T", "b", "function", wired("c")), on("T", "c", "debug")];

describe("a changed node affects", () => {
  test.for<[what: string, flows: readonly FlowNode[], id: string, affected: readonly string[]]>([
    ["itself and what it is wired to, but nothing before it", [...chain, on("T", "d", "debug")], "b", ["b", "c"]],
    ["each node of a loop once", [on("T", "a", "x", wired("b")), on("T", "b", "x", wired("a"))], "a", ["a", "b"]],
    ["no node that does not exist", [on("T", "a", "x", wired("gone"))], "a", ["a"]],
    [
      "what links lead to, whichever of their ends lists the other",
      [
        on("T", "a", "x", wired("o1", "o2")),
        on("T", "o1", "link out", { links: ["i1"] }),
        on("T", "o2", "link out", { links: [] }),
        on("U", "i1", "link in", { links: [], ...wired("b") }),
        on("U", "i2", "link in", { links: ["o2"], ...wired("c") }),
        on("U", "b", "x"),
        on("U", "c", "x"),
        on("U", "i3", "link in", { links: [] }),
      ],
      "a",
      ["a", "b", "c", "i1", "i2", "o1", "o2"],
    ],
    [
      "what a link call calls, and what all calls return to",
      [
        on("T", "call", "link call", { links: ["in"], ...wired("after") }),
        on("T", "after", "x"),
        on("U", "in", "link in", { links: [], ...wired("return") }),
        on("U", "return", "link out", { mode: "return", links: [] }),
        on("U", "other", "link call", { links: [], ...wired("behind") }),
        on("U", "behind", "x"),
      ],
      "call",
      ["after", "behind", "call", "in", "other", "return"],
    ],
    [
      "all link nodes if its call is dynamic",
      [on("T", "call", "link call", { linkType: "dynamic" }), on("U", "in", "link in"), on("U", "x", "x")],
      "call",
      ["call", "in"],
    ],
    [
      "nodes that observe it, or all nodes of its tab, or of its group",
      [
        on("T", "a", "x"),
        on("T", "one", "catch", { scope: ["a"] }),
        on("T", "all", "status", { scope: null }),
        on("T", "group", "catch", { scope: "group" }),
        on("T", "done", "complete", { scope: ["a"], ...wired("b") }),
        on("T", "b", "x"),
        on("T", "none", "catch", { scope: ["other"] }),
        on("U", "elsewhere", "catch", { scope: null }),
      ],
      "a",
      ["a", "all", "b", "done", "group", "one"],
    ],
    [
      "the nodes that use it as their configuration",
      [
        { id: "broker", type: "mqtt-broker" },
        on("T", "a", "mqtt in", { broker: "broker", ...wired("b") }),
        on("T", "b", "x"),
      ],
      "broker",
      ["a", "b", "broker"],
    ],
    [
      "a subflow instance that it is wired to, and what that is wired to",
      [
        { id: "S", type: "subflow", in: [{ wires: [{ id: "inner" }] }], out: [{ wires: [{ id: "inner", port: 0 }] }] },
        on("S", "inner", "x", { wires: [[]] }),
        on("T", "a", "x", wired("s")),
        on("T", "s", "subflow:S", wired("b")),
        on("T", "b", "x"),
        on("T", "other", "subflow:S"),
      ],
      "a",
      ["a", "b", "s"],
    ],
    [
      "the instances of the subflow that contains it, also those around an instance",
      [
        { id: "S", type: "subflow", in: [], out: [] },
        { id: "R", type: "subflow", in: [], out: [] },
        on("S", "inner", "x"),
        on("R", "nested", "subflow:S"),
        on("T", "s", "subflow:S", wired("b")),
        on("T", "b", "x"),
        on("U", "r", "subflow:R"),
        on("U", "c", "x"),
      ],
      "inner",
      ["b", "r", "s"],
    ],
  ])("%s", ([, flows, id, affected]) => {
    expect(affectedBy(flows, id)).toEqual(affected);
  });
});

describe("affected are", () => {
  const affected = (before: readonly FlowNode[], after: readonly FlowNode[], credentials = sets({})) =>
    findAffected({ flows: before, credentials: new Map() }, { flows: after, credentials });

  test("no nodes if the names of tabs, coordinates or nothing changes", () => {
    expect(affected([...tabs, ...chain], [...tabs.map(changed), ...chain.map((node) => ({ ...node, x: 7 }))])).toEqual(
      [],
    );
    expect(affected(chain, chain)).toEqual([]);
  });

  test("added nodes, and nodes whose wires or credentials have changed, but not removed ones", () => {
    const [a, b, c] = chain as [FlowNode, FlowNode, FlowNode];
    expect(affected([...tabs, a, c], [...tabs, a, b, c])).toEqual(["b", "c"]);
    expect(affected([...tabs, ...chain], [...tabs, a, { ...b, wires: [[]] }, c])).toEqual(["b"]);
    expect(affected([...tabs, ...chain], [...tabs, ...chain], sets({ c: { password: "x" } }))).toEqual(["c"]);
    expect(affected([...tabs, ...chain], [...tabs, a, b])).toEqual([]);
  });

  test("a tab with all its nodes if its environment has changed", () => {
    const [t, u] = tabs as [FlowNode, FlowNode];
    const environment = { ...t, env: [{ name: "A", value: "1" }] };
    const other = on("U", "d", "debug");
    expect(affected([t, u, ...chain, other], [environment, u, ...chain, other])).toEqual(
      expect.arrayContaining(["T", "a", "b", "c"]),
    );
    expect(affected([t, u, ...chain, other], [environment, u, ...chain, other])).not.toContain("d");
  });

  test("all nodes if the global environment has changed", () => {
    const global: FlowNode = { id: "g", type: "global-config", env: [] };
    expect(affected([...tabs, global], [...tabs, { ...global, env: [{ name: "A", value: "1" }] }])).toBe("all");
  });

  test("found in time that is linear in the flows", () => {
    // Were each node visited for each other one, this would take minutes.
    const count = 10_000;
    const many = Array.from({ length: count }, (_, index) => [
      on("T", `o${index}`, "link out", { mode: "return", links: [] }),
      on("T", `c${index}`, "link call", { linkType: "dynamic" }),
      on("T", `i${index}`, "link in", { links: [] }),
      on("T", `e${index}`, "catch", { scope: null }),
    ]).flat();
    expect(affectedBy(many, "o0")).toHaveLength(1 + 3 * count);
  });
});
