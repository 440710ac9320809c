import { expect, test } from "vitest";
import { appearanceOf } from "../../src/flow-view/appearance.ts";
import { parseFlowNodes } from "../../src/flow-view/flow-nodes.ts";
import { wireCurve } from "../../src/flow-view/geometry.ts";
import { labelOf } from "../../src/flow-view/labels.ts";
import { evaluate, loadDefinitions, loadExamples, loadWirePath } from "./node-red.ts";

const definitions = loadDefinitions();

const types = [...definitions].filter(
  ([type, { category }]) => category !== "config" && type !== "junction" && type !== "unknown",
);

/** Their labels ask the editor for other nodes. */
const references: ReadonlySet<string> = new Set(["link call", "websocket in", "websocket out"]);

test("knows Node-RED's own nodes", () => {
  expect(types.length).toBeGreaterThan(40);
});

test.each(types)("shows %s in the color, with the ports and the sides of Node-RED", (type, definition) => {
  const raw = { id: "n", type, name: "", wires: [] };
  const nodes = parseFlowNodes([raw]);
  const node = nodes.get("n");
  const appearance = node && appearanceOf(node, nodes, false);
  expect(appearance).toMatchObject({
    color: hexOf(definition.color ?? ""),
    inputs: definition.inputs,
    // A link node has a port for a link only while this is shown.
    outputs: definition.outputs,
    iconSide: definition.align === "right" ? "right" : "left",
  });
  expect(appearance?.icon).toBe(
    evaluate(definition, raw, definition.icon ?? "")
      .replace("white-", "")
      .replace(/\.\w+$/, ""),
  );
  expect(appearance?.button !== undefined).toBe(definition.button !== undefined);
});

test("labels the nodes of Node-RED's examples as its editor does", () => {
  const different: string[] = [];
  let count = 0;
  for (const [example, flows] of loadExamples()) {
    const nodes = parseFlowNodes(flows);
    for (const raw of flows) {
      const node = nodes.get(raw.id);
      const definition = definitions.get(raw.type);
      if (node === undefined || definition?.label === undefined || references.has(raw.type)) {
        continue;
      }
      count += 1;
      const expected = evaluate(definition, raw, definition.label as () => string)
        .replaceAll(/\s+/g, " ")
        .replaceAll(/ *\\n /g, "\\n ")
        .trim();
      const actual = labelOf(node, nodes).join("\\n ");
      if (actual !== expected && definition.category !== "config") {
        different.push(`${example}: ${raw.type}: ${actual} instead of ${expected}`);
      }
    }
  }
  expect(different).toEqual([]);
  expect(count).toBeGreaterThan(400);
});

test("bends wires as Node-RED's editor does", () => {
  const wirePath = loadWirePath();
  const places = [-900, -240, -120, -99, -40, -9, 0, 5, 10, 60, 101, 250, 800];
  for (const dx of places) {
    for (const dy of places) {
      const expected = absoluteCurve(wirePath(300, 200, 300 + dx, 200 + dy));
      expect(wireCurve({ x: 300, y: 200 }, { x: 300 + dx, y: 200 + dy }), `by ${dx}, ${dy}`).toEqual(expected);
    }
  }
});

/** The numbers of an SVG path of cubic curves and horizontal lines. */
function absoluteCurve(path: string): number[] {
  const curve: number[] = [];
  for (const [, command = "", rest = ""] of path.matchAll(/([MCSh])([^MCSh]*)/g)) {
    const numbers = rest.trim().split(/\s+/).map(Number);
    const [x, y] = [curve.at(-2) ?? 0, curve.at(-1) ?? 0];
    if (command === "S") {
      curve.push(2 * x - (curve.at(-4) ?? 0), 2 * y - (curve.at(-3) ?? 0), ...numbers);
    } else if (command === "h") {
      const end = x + (numbers[0] ?? 0);
      curve.push(x, y, end, y, end, y);
    } else {
      curve.push(...numbers);
    }
  }
  return curve.map((value) => Math.round(value * 100) / 100);
}

function hexOf(color: string): string {
  const named: Readonly<Record<string, string>> = { silver: "#c0c0c0", burlywood: "#deb887", darksalmon: "#e9967a" };
  const [, red, green, blue] = /^rgb\((\d+), (\d+), (\d+)\)$/.exec(color) ?? [];
  if (red !== undefined) {
    return `#${[red, green, blue].map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`;
  }
  const text = named[color.toLowerCase()] ?? color.toLowerCase();
  return text.length === 4 ? text.replaceAll(/[0-9a-f]/g, "$&$&") : text;
}
