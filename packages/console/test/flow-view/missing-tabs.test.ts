import { expect, test } from "vitest";
import { findMissingTabs as findInService } from "@flowgate/flows";
import { parseFlowNodes } from "../../src/flow-view/flow-nodes.ts";

const node = { id: "n", type: "debug", z: "gone", x: 1, y: 1, wires: [] };

test.each<
  [what: string, missing: readonly string[], nodes: readonly { id: string; type: string; [name: string]: unknown }[]]
>([
  ["an exported selection", ["gone"], [node, { ...node, id: "m" }]],
  ["a node without coordinates", ["gone"], [{ id: "n", type: "debug", z: "gone", wires: [] }]],
  ["a node without wires", ["gone"], [{ id: "n", type: "debug", z: "gone", x: 1, y: 1 }]],
  ["the tab exists", [], [node, { id: "gone", type: "tab" }]],
  ["a subflow", [], [{ id: "gone", type: "subflow" }, node]],
  ["a configuration node alone", [], [{ id: "c", type: "mqtt-broker", z: "gone" }]],
  ["a configuration node with one coordinate", [], [{ id: "c", type: "mqtt-broker", z: "gone", x: 1 }]],
  ["a group alone", [], [{ id: "g", type: "group", z: "gone", x: 1, y: 1, nodes: [] }]],
  [
    "no z",
    [],
    [
      { ...node, z: "" },
      { ...node, id: "m", z: null },
    ],
  ],
])("%s: the tabs that do not exist are %j", (_what, missing, nodes) => {
  expect([...findInService(nodes as never)]).toEqual(missing);
  const shown = parseFlowNodes(nodes).containers.filter((each) => each.kind === "tab" && each.isMissing);
  expect(shown.map(({ id, name }) => [id, name])).toEqual(missing.map((id) => [id, id]));
});
