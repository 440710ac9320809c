// An algorithm whose time is quadratic, or the product of two lengths, would not end before the timeout.
import { describe, expect, test } from "vitest";
import { Budget } from "../src/budget.ts";
import type { Configuration, FlowNode } from "../src/configuration.ts";
import { diffFlows } from "../src/diff/diff-flows.ts";
import { formatDiff } from "../src/diff/format-diff.ts";
import type { FlowsDiff } from "../src/diff/differences.ts";
import { mergeFlows } from "../src/merge/merge-flows.ts";
import { parseFlows, toSubmittedNodes } from "../src/parse-flows.ts";
import { failure, sets } from "./builders.ts";

const timeout = 150_000;

function repeat<T>(count: number, create: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => create(index));
}

function configuration(flows: readonly FlowNode[]): Configuration {
  return { flows, credentials: sets({}) };
}

function node(id: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type: "debug", x: 1, y: 1, wires: [], ...properties };
}

type Sides = readonly [base: FlowNode[], target: FlowNode[]];

function compare([base, target]: Sides, budget = new Budget()): { diff: FlowsDiff; text: string } {
  const diff = diffFlows(configuration(base), configuration(target), budget);
  return { diff, text: formatDiff(diff, { base, target }, budget) };
}

const long = "x".repeat(1_000_000);

describe("a comparison is limited", { timeout }, () => {
  test.for<[what: string, sides: Sides]>([
    [
      "10,000 values below a name of 1 MB",
      [[node("a", { [long]: repeat(10_000, () => 1) })], [node("a", { [long]: repeat(10_000, () => 2) })]],
    ],
    [
      "10,000 wires to a node with a type of 1 MB",
      [
        [node("b", { type: long }), ...repeat(10_000, (n) => node(`n${n}`))],
        [node("b", { type: long }), ...repeat(10_000, (n) => node(`n${n}`, { wires: [["b"]] }))],
      ],
    ],
    ["10 million lines without text", [[node("a", { text: "" })], [node("a", { text: "\n".repeat(10_000_000) })]]],
  ])("%s", ([, sides]) => {
    expect(failure(() => compare(sides))).toBe(
      "limit_exceeded flows: the result is larger than 67108864 bytes: change fewer nodes at once, or shorten their ids, names and values",
    );
  });

  test("output and time, at the limit and beyond it", () => {
    const sides: Sides = [[node("a", { name: "1234" })], [node("a", { name: "5678" })]];
    // The id and type, the name of the property and its values.
    expect(failure(() => compare(sides, new Budget({ maxOutputBytes: 17 })))).toContain("is larger than 17 bytes");
    expect(
      diffFlows(...(sides.map(configuration) as [Configuration, Configuration]), new Budget({ maxOutputBytes: 18 })),
    ).toMatchObject({ containers: [{ nodes: [{ id: "a" }] }] });
    expect(failure(() => compare(sides, new Budget({ maxOutputBytes: 18 })))).toContain("is larger than 18 bytes");
    const many = repeat(1_000, (n) => node(`n${n}`));
    expect(failure(() => compare([[], many], new Budget({ maxMs: -1 })))).toContain("takes longer than -1 ms");
  });
});

describe("a comparison takes time that is linear in the flows", { timeout }, () => {
  test("an output with 200,000 wires, of which all changed", () => {
    const wires = (prefix: string): FlowNode[] => [node("a", { wires: [repeat(200_000, (n) => `${prefix}${n}`)] })];
    expect(compare([wires("a"), wires("b")]).text.match(/[-+] \(/g)).toHaveLength(400_000);
  });

  test("a property with 300,000 elements, of which all changed", () => {
    const list = (value: number): FlowNode[] => [node("a", { list: repeat(300_000, () => value) })];
    expect(compare([list(1), list(2)]).diff.containers[0]?.nodes[0]?.properties).toHaveLength(300_000);
  });

  test("a text with 300,000 lines, of which every third changed", () => {
    const text = (value: string): FlowNode[] => [
      node("a", { func: repeat(300_000, (n) => (n % 3 === 0 ? value : `${n % 7}`)).join("\n") }),
    ];
    expect(compare([text("a"), text("b")]).text.match(/from line/g)).toHaveLength(1);
  });

  test("60,000 nodes in reverse order", () => {
    const nodes = repeat(60_000, (n) => node(`n${n}`));
    expect(compare([nodes, nodes.toReversed()]).diff.containers[0]?.nodes).toHaveLength(59_999);
  });
});

describe("a merge", { timeout }, () => {
  test("takes time that is linear in the flows: 60,000 removed nodes, to which one list refers", () => {
    const nodes = repeat(60_000, (n) => node(`n${n}`));
    const ours = [node("a", { scope: nodes.map(({ id }) => id) }), ...nodes];
    const [base, theirs] = [[node("a"), ...nodes], [node("a")]];
    const result = mergeFlows(configuration(base), configuration(ours), configuration(theirs));
    expect(result).toMatchObject({ kind: "conflict", conflicts: { length: 60_000 } });
  });

  test("is limited: 10,000 conflicts because of a node with an id of 1 MB", () => {
    const nodes = repeat(10_000, (n) => node(`n${n}`));
    const ours = [node(long, { scope: nodes.map(({ id }) => id) }), ...nodes];
    const [base, theirs] = [[node(long), ...nodes], [node(long)]];
    expect(failure(() => mergeFlows(configuration(base), configuration(ours), configuration(theirs)))).toMatch(
      /^limit_exceeded flows: the result is larger than/,
    );
  });
});

describe("60,000 nested elements are valid", { timeout }, () => {
  test.for<[what: string, flows: FlowNode[]]>([
    [
      "subflows",
      repeat(60_000, (n) => [
        { id: `S${n}`, type: "subflow" },
        { id: `n${n}`, type: `subflow:S${n + 1}`, z: `S${n}` },
      ]).flat(),
    ],
    ["groups", repeat(60_000, (n) => ({ id: `g${n}`, type: "group", ...(n < 59_999 && { g: `g${n + 1}` }) }))],
  ])("%s", ([, flows]) => {
    expect(parseFlows(toSubmittedNodes(flows)).flows).toHaveLength(flows.length);
    expect(compare([flows, []]).diff.containers.flatMap(({ nodes }) => nodes)).toHaveLength(flows.length);
    const sides = [flows, flows, flows.slice(1)].map(configuration) as [Configuration, Configuration, Configuration];
    expect(mergeFlows(...sides).kind).toBe("merged");
  });
});
