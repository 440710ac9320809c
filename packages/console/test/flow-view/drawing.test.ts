import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { draw, formatDisplayList } from "./display-list.ts";

type Case = readonly [name: string, nodes: readonly object[], tab?: object, container?: string];

const inject = { id: "inject", type: "inject", z: "tab", name: "", x: 120, y: 100, wires: [["debug"]] };
const debug = { id: "debug", type: "debug", z: "tab", name: "", x: 320, y: 100, active: true, wires: [] };

const cases: readonly Case[] = [
  ["wire", [inject, debug]],
  [
    "labels",
    [
      { ...inject, payload: "hello", payloadType: "str", repeat: "5", wires: [] },
      { ...debug, name: "a name that is much longer than a node of the least width", y: 160 },
      { id: "lines", type: "function", z: "tab", name: "first \\n second \\n third", x: 300, y: 240, wires: [[]] },
      { id: "hidden", type: "function", z: "tab", name: "hidden", l: false, x: 300, y: 320, wires: [[]] },
    ],
  ],
  [
    "control and format characters",
    [
      { ...inject, name: "admin\u202Etxt", wires: [] },
      { ...debug, name: "\uFEFFa\u200B\tb\n\\n c\u0000\u2028" },
      { id: "g", type: "group", z: "tab", name: "\u2066group", style: { label: true }, x: 10, y: 10, w: 90, h: 90 },
    ],
  ],
  [
    "outputs",
    [
      { id: "switch", type: "switch", z: "tab", x: 100, y: 100, outputs: 4, wires: [["a"], [], ["b", "a"], ["b"]] },
      { id: "a", type: "json", z: "tab", x: 300, y: 60, wires: [[]] },
      { id: "b", type: "exec", z: "tab", command: "ls", x: 300, y: 140, wires: [[], [], []] },
    ],
  ],
  [
    "backwards",
    [
      {
        id: "a",
        type: "delay",
        z: "tab",
        pauseType: "delay",
        timeout: "5",
        timeoutUnits: "seconds",
        x: 300,
        y: 100,
        wires: [["b", "a"]],
      },
      {
        id: "b",
        type: "change",
        z: "tab",
        rules: [{ t: "set", p: "payload", pt: "msg" }],
        x: 120,
        y: 220,
        wires: [["a"]],
      },
    ],
  ],
  [
    "other types",
    [
      { id: "a", type: "my-sensor", z: "tab", name: "", x: 100, y: 100, wires: [["b"]] },
      { id: "b", type: "my-display", z: "tab", name: "Screen", x: 300, y: 100, wires: [] },
    ],
  ],
  [
    "junction",
    [{ ...inject, wires: [["j"]] }, { id: "j", type: "junction", z: "tab", x: 220, y: 100, wires: [["debug"]] }, debug],
  ],
  ["comment", [{ id: "c", type: "comment", z: "tab", name: "What this does", x: 140, y: 40, wires: [] }]],
  ["disabled node", [{ ...inject, d: true }, debug]],
  ["disabled tab", [inject, debug], { disabled: true }],
  [
    "debug off",
    [
      { ...debug, active: false },
      { ...debug, id: "console", tosidebar: false, console: true, y: 160 },
    ],
  ],
  [
    "groups",
    [
      {
        id: "outer",
        type: "group",
        z: "tab",
        name: "Outer",
        style: { label: true, fill: "#ffcc00", "fill-opacity": "0.3", stroke: "none" },
        x: 10,
        y: 10,
        w: 500,
        h: 200,
      },
      {
        id: "inner",
        type: "group",
        z: "tab",
        g: "outer",
        name: "Inner \\n two lines",
        style: { label: true, "label-position": "se", color: "#ff0000" },
      },
      { ...inject, g: "inner" },
      { ...debug, g: "outer" },
      { id: "empty", type: "group", z: "tab", name: "", style: {}, x: 600, y: 20, w: 90, h: 70 },
    ],
  ],
  [
    "links",
    [
      { ...inject, wires: [["out"]] },
      { id: "out", type: "link out", z: "tab", name: "", links: ["in", "away"], x: 220, y: 100, wires: [] },
      { id: "in", type: "link in", z: "tab", name: "", links: ["out"], x: 320, y: 160, wires: [["debug"]] },
      { id: "back", type: "link out", z: "tab", mode: "return", l: true, x: 320, y: 220, wires: [] },
      { id: "call", type: "link call", z: "tab", linkType: "static", links: ["away"], x: 120, y: 220, wires: [[]] },
      { ...debug, x: 500 },
      { id: "tab2", type: "tab", label: "Flow 2" },
      { id: "away", type: "link in", z: "tab2", name: "away", links: ["out"], x: 100, y: 100, wires: [[]] },
    ],
  ],
  [
    "subflow instance",
    [
      {
        id: "sub",
        type: "subflow",
        name: "Twice",
        color: "#00ff00",
        in: [{ x: 40, y: 60, wires: [] }],
        out: [
          { x: 300, y: 60, wires: [] },
          { x: 300, y: 120, wires: [] },
        ],
        status: { x: 300, y: 200, wires: [] },
      },
      { id: "one", type: "subflow:sub", z: "tab", name: "", x: 120, y: 100, wires: [["debug"], [], []] },
      { id: "lost", type: "subflow:gone", z: "tab", name: "", x: 120, y: 180, wires: [[]] },
      debug,
    ],
  ],
  [
    "subflow",
    [
      {
        id: "sub",
        type: "subflow",
        name: "Twice",
        in: [{ x: 40, y: 60, wires: [{ id: "f" }] }],
        out: [{ x: 400, y: 60, wires: [{ id: "f", port: 1 }] }],
        status: { x: 400, y: 140, wires: [{ id: "f", port: 0 }] },
        inputLabels: ["number"],
      },
      { id: "f", type: "function", z: "sub", name: "double", outputs: 2, x: 200, y: 60, wires: [[], []] },
    ],
    {},
    "sub",
  ],
];

for (const [name, nodes, tab, container] of cases) {
  test(`draws ${name}`, async () => {
    const list = formatDisplayList(draw(nodes, tab, container));
    await expect(list).toMatchFileSnapshot(`golden/${name}.txt`);
  });
}

test("golden files show a change of a unit, a color or a wire", () => {
  const golden = readFileSync(new URL("golden/wire.txt", import.meta.url), "utf8");
  const list = (changes: object): string => formatDisplayList(draw([inject, { ...debug, ...changes }]));
  expect(list({})).toBe(golden);
  for (const changes of [{ x: 321 }, { type: "http response" }, { id: "other" }, { name: "n" }, { d: true }]) {
    expect(list(changes)).not.toBe(golden);
  }
});
