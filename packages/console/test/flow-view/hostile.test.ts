import { expect, test } from "vitest";
import { parseFlowNodes } from "../../src/flow-view/flow-nodes.ts";
import { statusLabel } from "../../src/flow-view/labels.ts";
import { draw } from "./display-list.ts";

const node = { id: "a", type: "function", z: "tab", x: 100, y: 100, wires: [["b"]] };

test.each<[string, readonly unknown[]]>([
  ["values that are not nodes", [null, undefined, 5, "text", [], {}, { id: 1, type: "x" }, { id: "x" }]],
  [
    "missing coordinates",
    [
      { ...node, x: undefined },
      { ...node, id: "b", y: undefined, x: undefined },
    ],
  ],
  [
    "coordinates that are not numbers",
    [
      { ...node, x: Number.NaN, y: "many" },
      { ...node, id: "b", x: {}, y: [] },
    ],
  ],
  [
    "huge coordinates",
    [
      { ...node, x: 1e308, y: -1e308 },
      { ...node, id: "b", x: Infinity },
    ],
  ],
  ["wires to nowhere", [{ ...node, wires: [["gone", "a", "tab"], null, "b", [null, 7, {}]] }]],
  [
    "wires that are no list",
    [
      { ...node, wires: { 0: ["b"] } },
      { ...node, id: "b", wires: "a" },
    ],
  ],
  ["a wire to another tab", [node, { id: "tab2", type: "tab" }, { ...node, id: "b", z: "tab2" }]],
  [
    "the names of properties of all objects",
    ["__proto__", "constructor", "hasOwnProperty"].map((id) => ({
      ...node,
      id,
      type: id,
      g: id,
      name: id,
      wires: [["__proto__"]],
    })),
  ],
  ["ids that occur twice", [node, { ...node, x: 500 }, { ...node, id: "b" }]],
  [
    "groups in each other",
    [
      { id: "g", type: "group", z: "tab", g: "h" },
      { id: "h", type: "group", z: "tab", g: "g" },
      { ...node, g: "g" },
    ],
  ],
  ["a group in itself", [{ id: "g", type: "group", z: "tab", g: "g", x: 0, y: 0, w: -5, h: Number.NaN }]],
  [
    "a thousand groups in each other",
    Array.from({ length: 1000 }, (_, index) => ({ id: `g${index}`, type: "group", z: "tab", g: `g${index + 1}` })),
  ],
  [
    "too many outputs",
    [
      { ...node, outputs: 1e9 },
      { ...node, id: "b", outputs: -1, wires: Array.from({ length: 5000 }, () => ["a"]) },
    ],
  ],
  [
    "a subflow that contains itself",
    [
      { id: "s", type: "subflow", in: 7, out: [null, { x: "a", wires: [5, { id: {} }] }], status: 1 },
      { id: "i", type: "subflow:s", z: "s", x: 1, y: 1, wires: [] },
      { id: "k", type: "subflow:s", z: "tab", x: 1, y: 1 },
    ],
  ],
  [
    "links to nowhere and to itself",
    [
      { id: "l", type: "link out", z: "tab", x: 1, y: 1, links: ["l", "gone", 5, "tab"] },
      { id: "m", type: "link in", z: "tab", x: 1, y: 1, links: "l" },
    ],
  ],
  [
    "labels that are no text",
    [
      { ...node, name: { a: 1 } },
      { ...node, id: "b", type: "change", rules: [null] },
      { ...node, id: "c", type: "inject", props: [null, 5], payload: {} },
    ],
  ],
  [
    "styles that are no styles",
    [
      {
        id: "g",
        type: "group",
        z: "tab",
        name: "g",
        style: { label: true, fill: "url(x)", stroke: 5, "label-position": "__proto__", "fill-opacity": "NaN" },
      },
    ],
  ],
])("draws flows with %s", (_, nodes) => {
  const { elements, bounds } = draw(nodes as object[]);
  const ids = elements.map(({ kind, id }) => `${kind} ${id}`);
  expect(new Set(ids).size).toBe(ids.length);
  for (const { box } of [...elements, { box: bounds ?? elements[0]?.box }]) {
    expect(Object.values(box ?? {}).every((value) => Number.isFinite(value) && Math.abs(value) < 1e8)).toBe(true);
  }
});

test("keeps the first of two nodes with one id", () => {
  const nodes = parseFlowNodes([node, { ...node, x: 500 }]);
  expect(nodes.size).toBe(1);
  expect(nodes.get("a")?.position).toEqual({ x: 100, y: 100 });
});

test.each(["x", "\u202E", "\u{E0041}"])("cuts a label of many %j, which nobody could read", (character) => {
  const { elements } = draw([{ ...node, name: character.repeat(100_000) }]);
  expect(elements[0]?.box.width).toBeLessThan(3000);
});

test.each([
  ["up\u202Edown", String.raw`up\u{202e}down`],
  ["x".repeat(100), `${"x".repeat(60)}…`],
  ["\u200B".repeat(100), `${String.raw`\u{200b}`.repeat(8).slice(0, 60)}…`],
])("shows the status %j as %s", (text, shown) => {
  expect(statusLabel(text)).toBe(shown);
});

test.each(["url(https://example.com)", "red;", "expression(1)", "var(--x)", "#12", ""])(
  "does not use %s as a color",
  (fill) => {
    const [group] = draw([{ id: "g", type: "group", z: "tab", style: { fill } }]).elements;
    expect(group).toMatchObject({ kind: "group", fill: undefined });
  },
);
