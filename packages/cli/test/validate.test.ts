import { expect, test } from "vitest";
import { formatProblem } from "../src/flow-files/source.ts";
import { validateFlows } from "../src/flow-files/validate.ts";

/** Validates nodes, each of them on its own line. */
const validate = (flows: readonly object[]) => {
  const lines = flows.map((node) => JSON.stringify(node)).join(",\n");
  return validateFlows(["-"], () => Promise.resolve(Buffer.from(`[${lines}]`)));
};

test("finds nothing in valid flows", async () => {
  expect(await validate([{ id: "t", type: "tab" }])).toEqual({ problems: [], warnings: [] });
});

test("finds the first problem of each node, and then no warnings", async () => {
  const flows = [
    { id: "t", type: "tab" },
    { id: "g", type: "group", z: "t", g: "none" },
    { id: "n", type: "x", z: "t", x: 0, y: 0, wires: ["m"] },
    { id: "n", type: "x", wires: [["none"]] },
    { id: "constructor", type: "x" },
  ];
  const { problems, warnings } = await validate(flows);
  expect(problems.map(({ line, message }) => `${line} ${message}`)).toEqual([
    '2 g: must be the id of a group on the same tab or subflow, and "none" is not',
    "3 wires[0]: must be an array of node ids",
    '4 id: must be unique, and <stdin>:3:1 is "n" too',
    '5 id: must not be "constructor", which the flow runtime can\'t use as a name',
  ]);
  expect(warnings).toEqual([]);
});

test("finds what is valid, but probably not intended", async () => {
  const flows = [
    { id: "t", type: "tab", label: "Heating" },
    { id: "n", type: "inject", z: "t", x: 0, y: 0, wires: [["none"]] },
    { id: "i", type: "subflow:none", z: "t", x: 0, y: 0 },
    { id: "c", type: "mqtt-broker" },
  ];
  const { problems, warnings } = await validate(flows);
  expect(problems).toEqual([]);
  expect(warnings.map(formatProblem)).toEqual([
    "<stdin>:3:1: subflow:none: there is no such subflow, so that the runtime starts no flow",
    '<stdin>:4:1: mqtt-broker "c": no node uses this configuration node',
    '<stdin>:2:1: inject "n" in tab "Heating": it is wired to "none", which is not a node that can receive its messages',
  ]);
});

test("reports invalid credentials without their values", async () => {
  const flows = { flows: [], credentials: { a: { password1: "hunter2", hasOwnProperty: "hunter2" } } };
  const { problems } = await validateFlows(["-"], () => Promise.resolve(Buffer.from(JSON.stringify(flows))));
  expect(problems).toEqual([
    { file: "<stdin>", line: 1, column: 55, message: "credentials.a.hasOwnProperty: this key is not allowed" },
  ]);
});
