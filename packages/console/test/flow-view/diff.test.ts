import { create } from "@bufbuild/protobuf";
import { type ContainerDiff, FlowsDiffSchema, NodeAspect, NodeChange } from "@flowgate/client";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { drawDiff, type FlowDiffDrawing } from "../../src/flow-view/diff.ts";
import { parseFlowNodes } from "../../src/flow-view/flow-nodes.ts";
import { formatDisplayList, measureText } from "./display-list.ts";

type Flow = { readonly id: string; readonly [property: string]: unknown };
type Changed = readonly [id: string, change: NodeChange, ...aspects: NodeAspect[]];

const a: Flow = { id: "a", type: "inject", z: "tab", name: "a", x: 100, y: 60, wires: [["b"]] };
const b: Flow = { id: "b", type: "function", z: "tab", name: "b", x: 300, y: 60, wires: [["c"]] };
const c: Flow = { id: "c", type: "debug", z: "tab", name: "c", x: 500, y: 60, wires: [] };
const { ADDED, REMOVED, CHANGED } = NodeChange;

const cases: Readonly<Record<string, readonly [before: readonly Flow[], after: readonly Flow[], ...Changed[]]>> = {
  added: [
    [a, { ...b, wires: [[]] }],
    [a, b, c],
    ["b", CHANGED, NodeAspect.WIRES],
    ["c", ADDED],
  ],
  removed: [
    [a, b, c],
    [a, { ...b, wires: [[]] }],
    ["b", CHANGED, NodeAspect.WIRES],
    ["c", REMOVED],
  ],
  changed: [
    [a, b, c],
    [a, { ...b, func: "return msg;" }, c],
    ["b", CHANGED, NodeAspect.PROPERTIES],
  ],
  moved: [
    [a, b, c],
    [a, { ...b, y: 160 }, c],
    ["b", CHANGED, NodeAspect.POSITION],
  ],
  rewired: [
    [a, b, c],
    [{ ...a, wires: [["c"]] }, b, c],
    ["a", CHANGED, NodeAspect.WIRES],
  ],
  "moved and rewired": [
    [a, b, c],
    [{ ...a, y: 200, wires: [["c"]], payload: "1" }, b, c],
    ["a", CHANGED, NodeAspect.POSITION, NodeAspect.WIRES, NodeAspect.PROPERTIES],
  ],
  "to another tab": [
    [a, b, c],
    [a, b, { ...c, z: "other" }],
    ["c", CHANGED, NodeAspect.CONTAINER],
  ],
  "a group": [
    [a, { id: "g", type: "group", z: "tab", name: "old", style: { label: true } }],
    [
      { ...a, g: "g" },
      { id: "g", type: "group", z: "tab", name: "new", style: { label: true } },
    ],
    ["g", CHANGED, NodeAspect.PROPERTIES, NodeAspect.GROUP],
    ["a", CHANGED, NodeAspect.GROUP],
  ],
};

test.each(Object.keys(cases))("draws a difference: %s", async (name) => {
  const { together, before, after, changes } = draw(name);
  const list = [
    ...changes.map(({ id, kinds }) => `change ${id} ${kinds.join(" ")}\n`),
    "\n",
    formatDisplayList(together),
    "\nbefore\n",
    formatDisplayList(before),
    "\nafter\n",
    formatDisplayList(after),
  ];
  await expect(list.join("")).toMatchFileSnapshot(`golden/diff ${name}.txt`);
});

test("golden files of differences show another mark", () => {
  const golden = readFileSync(new URL("golden/diff rewired.txt", import.meta.url), "utf8");
  const { together } = draw("rewired");
  expect(golden).toContain(formatDisplayList(together));
  const elements = together.elements.map((element) => ({ ...element, change: "changed" as const }));
  expect(golden).not.toContain(formatDisplayList({ ...together, elements }));
});

test("lists changes by rows from the top, those without a place last", () => {
  const before = [{ ...c, y: 300 }, b, a];
  const changed = before.map(({ id }): Changed => [id, CHANGED, NodeAspect.PROPERTIES]);
  expect(drawCase([before, before, ...changed, ["tab", CHANGED, NodeAspect.PROPERTIES]]).changes).toMatchObject([
    { id: "a" },
    { id: "b" },
    { id: "c" },
    { id: "tab" },
  ]);
});

function draw(name: string): FlowDiffDrawing {
  const found = cases[name];
  if (found === undefined) {
    throw new TypeError(`there is no case ${name}`);
  }
  return drawCase(found);
}

function drawCase([before, after, ...changed]: (typeof cases)[string]): FlowDiffDrawing {
  const tabs = [
    { id: "tab", type: "tab", label: "Flow 1" },
    { id: "other", type: "tab", label: "Flow 2" },
  ];
  return drawDiff(
    { before: parseFlowNodes([...tabs, ...before]), after: parseFlowNodes([...tabs, ...after]) },
    containerDiff(changed),
    measureText,
  );
}

function containerDiff(changed: readonly Changed[]): ContainerDiff {
  const nodes = changed.map(([id, change, ...aspects]) => ({ id, change, aspects }));
  const [container] = create(FlowsDiffSchema, { containers: [{ id: "tab", nodes }] }).containers;
  if (container === undefined) {
    throw new TypeError("unreachable");
  }
  return container;
}
