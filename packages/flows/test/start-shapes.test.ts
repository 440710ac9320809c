// Deploys unusual shapes of the properties that the flow runtime reads when it starts flows.
import type { JsonValue } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FlowNode } from "../src/configuration.ts";
import { parseFlows, toSubmittedNodes } from "../src/parse-flows.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "../../runtime/test/builders.ts";
import { endpoint, functionNode, installProbe, tab } from "../../runtime/test/flow-builders.ts";
import { describe, failure } from "./builders.ts";

const position = { x: 100, y: 100 };

/** One node of each kind, which the runtime reads in different ways, in a flow of its own. */
const kinds = {
  tab: (id) => [tab(id)],
  subflow: (id) => [
    {
      id,
      type: "subflow",
      env: [],
      in: [{ wires: [{ id: `${id}-inner` }] }],
      out: [{ wires: [{ id: `${id}-inner`, port: 0 }] }],
      status: { wires: [{ id: `${id}-inner`, port: 0 }] },
    },
    functionNode(`${id}-inner`, { z: id }),
    { id: `${id}-instance`, type: `subflow:${id}`, z: `${id}-tab`, ...position, wires: [[]] },
  ],
  instance: (id) => [
    { id, type: `subflow:${id}-subflow`, z: `${id}-tab`, ...position, env: [], wires: [[]] },
    { id: `${id}-subflow`, type: "subflow", env: [{ name: "A", type: "str", value: "a" }], in: [], out: [] },
  ],
  "node in a subflow": (id) => [
    functionNode(id, { z: `${id}-subflow` }),
    { id: `${id}-subflow`, type: "subflow", in: [], out: [] },
    { id: `${id}-instance`, type: `subflow:${id}-subflow`, z: `${id}-tab`, ...position, wires: [] },
  ],
  "group in a subflow": (id) => [
    { id, type: "group", z: `${id}-subflow`, nodes: [], env: [] },
    { id: `${id}-subflow`, type: "subflow", in: [], out: [] },
    { id: `${id}-instance`, type: `subflow:${id}-subflow`, z: `${id}-tab`, ...position, wires: [] },
  ],
  group: (id) => [
    { id, type: "group", z: `${id}-tab`, nodes: [`${id}-node`], env: [] },
    { ...functionNode(`${id}-node`, { z: `${id}-tab` }), g: id },
  ],
  "nested group": (id) => [
    { id, type: "group", z: `${id}-tab`, g: `${id}-outer`, nodes: [], env: [] },
    { id: `${id}-outer`, type: "group", z: `${id}-tab`, nodes: [id] },
  ],
  function: (id) => [functionNode(id, { z: `${id}-tab` })],
  "configuration node": (id) => [
    { id, type: "probe-config", z: `${id}-tab`, name: "p" },
    { id: `${id}-user`, type: "probe", z: `${id}-tab`, ...position, config: id, wires: [] },
  ],
  "shared configuration node": (id) => [{ id, type: "probe-config", z: "", name: "p" }],
  "global-config": (id) => [{ id, type: "global-config", env: [] }],
  "link in": (id) => [{ id, type: "link in", z: `${id}-tab`, ...position, links: [], wires: [[]] }],
  "link out": (id) => [{ id, type: "link out", z: `${id}-tab`, ...position, mode: "link", links: [], wires: [] }],
  "link call": (id) => [{ id, type: "link call", z: `${id}-tab`, ...position, links: [], wires: [[]] }],
  complete: (id) => [{ id, type: "complete", z: `${id}-tab`, ...position, scope: [], wires: [[]] }],
  catch: (id) => [{ id, type: "catch", z: `${id}-tab`, ...position, scope: [], wires: [[]] }],
  status: (id) => [{ id, type: "status", z: `${id}-tab`, ...position, scope: [], wires: [[]] }],
  junction: (id) => [{ id, type: "junction", z: `${id}-tab`, ...position, wires: [[]] }],
} satisfies Record<string, (id: string) => FlowNode[]>;

type Kind = keyof typeof kinds;

/** For what several kinds have in common. Undefined: the property is absent. */
const fewShapes: readonly (JsonValue | undefined)[] = [
  undefined,
  null,
  true,
  1,
  "x",
  "${X}",
  "__proto__",
  [],
  [null],
  [["constructor"]],
  {},
  { length: 1e9 },
];

const shapes: readonly (JsonValue | undefined)[] = [
  ...fewShapes,
  false,
  0,
  1e9,
  "",
  "constructor",
  [1],
  ["x"],
  ["constructor"],
  [["__proto__"]],
  [[null]],
  [{}],
  [{ id: null }],
  [{ wires: null }],
  { length: 2 },
  { forEach: "x" },
  { wires: [] },
  { valueOf: 1 },
];

/** Of all nodes. */
const common = ["z", "g", "d", "name", "wires", "x", "env"];

/** What the runtime adds to the nodes that it has read. */
const internal = ["_alias", "_flow", "_path", "_users", "users"];

/** What the runtime reads of some kinds in addition. */
const properties: Readonly<Record<Kind, readonly string[]>> = {
  tab: ["label", "disabled", "nodes", "configs", "groups", "subflows"],
  subflow: ["in", "out", "status", "nodes", "configs", "groups", "subflows", "instances"],
  instance: ["subflow"],
  "node in a subflow": ["libs", "subflow", "scope"],
  "group in a subflow": ["nodes", "style"],
  group: ["nodes", "style"],
  "nested group": ["nodes"],
  function: ["libs", "subflow", "links", "outputs"],
  "configuration node": ["config", "links"],
  "shared configuration node": ["config"],
  "global-config": ["modules"],
  "link in": ["links"],
  "link out": ["links", "mode"],
  "link call": ["links", "linkType"],
  complete: ["scope", "uncaught"],
  catch: ["scope", "uncaught"],
  status: ["scope"],
  junction: [],
};

type Wrap = (shape: JsonValue, id: string) => JsonValue;

/** Of a subflow's ports, and of variables, each with a shape within. */
const within: readonly (readonly [kind: Kind, property: string, wrap: Wrap])[] = [
  ...(["in", "out", "status"] as const).flatMap((property) => {
    const wrap = (port: JsonValue): JsonValue => (property === "status" ? port : [port]);
    const wraps: readonly Wrap[] = [
      (shape) => wrap({ wires: shape }),
      (shape) => wrap({ wires: [shape] }),
      (shape) => wrap({ wires: [{ id: shape, port: 0 }] }),
      (shape, id) => wrap({ wires: [{ id: `${id}-inner`, port: shape }] }),
      (shape, id) => wrap({ wires: [{ id, port: shape }] }),
    ];
    return wraps.map((each) => ["subflow", property, each] as const);
  }),
  ...(["tab", "subflow", "instance", "group", "group in a subflow", "global-config"] as const).flatMap((kind) => [
    [kind, "env", (shape: JsonValue) => [{ name: shape, type: "str", value: "a" }]] as const,
    [kind, "env", (shape: JsonValue) => [{ name: "A", type: shape, value: "a" }]] as const,
    ...["str", "num", "bool", "json", "bin", "re", "date", "jsonata", "env", "cred", "conf-type", "flow", "msg"].map(
      (type) => [kind, "env", (shape: JsonValue) => [{ name: "A", type, value: shape }]] as const,
    ),
  ]),
  ["function", "libs", (shape) => [{ module: "node:os", var: shape }]],
];

type Case = { readonly name: string; readonly property: string; readonly flows: readonly FlowNode[] };

function* createCases(disabled: boolean): Generator<Case> {
  let count = 0;
  function create(kind: Kind, property: string, toShape: (id: string) => JsonValue | undefined): Case {
    const id = `c${(count += 1)}`;
    const [{ [property]: _replaced, ...node }, ...others] = kinds[kind](id) as [FlowNode, ...FlowNode[]];
    const shape = toShape(id);
    const changed = shape === undefined ? node : { ...node, [property]: shape };
    return {
      name: `${kind}: ${property}: ${JSON.stringify(shape)}`,
      property,
      flows: [tab(`${id}-tab`, { disabled }), changed as FlowNode, ...others],
    };
  }
  for (const [kind, own] of Object.entries(properties) as [Kind, readonly string[]][]) {
    const rows = [
      ...common.map((property) => [property, fewShapes] as const),
      ...internal.map((property) => [property, fewShapes.slice(0, 5)] as const),
      ...own.map((property) => [property, shapes] as const),
    ];
    for (const [property, values] of rows) {
      for (const shape of values) {
        yield create(kind, property, () => shape);
      }
    }
  }
  for (const [kind, property, wrap] of within) {
    const values = property === "env" ? fewShapes : shapes;
    for (const shape of values.filter((each) => each !== undefined)) {
      yield create(kind, property, (id) => wrap(shape, id));
    }
  }
  for (const kind of Object.keys(kinds) as Kind[]) {
    for (const type of ["subflow:", "subflow:\n", "tab", "subflow", "group", "global-config", "link in", "complete"]) {
      yield create(kind, "type", () => type);
    }
    for (const property of ["name", "config", "_alias"]) {
      yield create(kind, property, (id) => id);
    }
  }
}

let runtime: OpenedRuntime;
let seq = 0;
beforeAll(async () => {
  runtime = await runtimeUnderTest(
    { unresponsiveMs: 60_000, freshProcess: "never", nodeCloseTimeoutMs: 1_000 },
    installProbe,
  );
});
afterAll(() => runtime[Symbol.asyncDispose]());

const hello = (text: string) => endpoint("/hello", `msg.payload = "${text}"`);

/** Deploys flows beside others. Returns "runs", or what the others respond, and why they were not started. */
async function deploy(flows: readonly FlowNode[]): Promise<string> {
  for (const type of ["full", "nodes"] as const) {
    seq += 1;
    const text = `hello ${seq}`;
    await runtime.apply(revision(seq, [...flows, ...hello(text)]), type);
    const { state, message } = runtime.status();
    const response = await runtime.get("/hello").catch(String);
    if (response !== text || (state !== "running" && state !== "failed")) {
      return `${type}: ${response} ${state} ${message}`;
    }
  }
  return "runs";
}

/** Finds the cases that keep the others from being started. */
async function findFailing(cases: readonly Case[]): Promise<readonly string[]> {
  const result = await deploy(cases.flatMap(({ flows }) => flows));
  if (result === "runs") {
    return [];
  }
  if (cases.length === 1) {
    return [`${cases[0]?.name}: ${result}`];
  }
  const half = Math.ceil(cases.length / 2);
  return [...(await findFailing(cases.slice(0, half))), ...(await findFailing(cases.slice(half)))];
}

/** Of these the runtime reports that it starts nothing, because types and modules are not installed. */
function needsInstallation(flows: readonly FlowNode[]): boolean {
  const subflows = new Set(flows.filter(({ type }) => type === "subflow").map(({ id }) => id));
  return flows.some(
    ({ type, libs }) =>
      (type.startsWith("subflow:") && !subflows.has(type.slice("subflow:".length))) ||
      (typeof libs === "string" && libs !== "" && libs !== "constructor" && libs !== "__proto__") ||
      JSON.stringify(libs) === '["x"]',
  );
}

/** Why the service refuses the flows; undefined: it does not. */
function refusalOf(flows: readonly FlowNode[]): string | undefined {
  try {
    parseFlows(toSubmittedNodes(flows));
    return undefined;
  } catch (error) {
    return describe(error);
  }
}

const batchSize = 300;

test.each([
  ["an enabled tab", false],
  ["a disabled tab", true],
])("in %s, each shape is refused with its path, or the other tabs run", { timeout: 600_000 }, async (_, disabled) => {
  const all = [...createCases(disabled)].map((each) => ({ ...each, refusal: refusalOf(each.flows) }));
  const misplaced = all.filter(({ property, refusal }) => {
    // A group must be on the same tab as the group that contains it.
    const path = property === "z" ? "(z|g)" : property;
    return refusal !== undefined && !new RegExp(`^invalid_flows flows\\[\\d\\]\\.${path}\\b`).test(refusal);
  });
  expect(misplaced.map(({ name, refusal }) => `${name}: ${refusal}`)).toEqual([]);
  const accepted = all.filter(({ refusal }) => refusal === undefined);
  const startable = accepted.filter(({ flows }) => !needsInstallation(flows));
  expect(startable.length).toBeGreaterThan(3_000);
  const failing: string[] = [];
  for (let start = 0; start < startable.length; start += batchSize) {
    failing.push(...(await findFailing(startable.slice(start, start + batchSize))));
  }
  expect(failing).toEqual([]);
});

const link = (type: string, links: JsonValue): FlowNode => ({ id: "l", type, z: "u", ...position, links, wires: [] });
const port = (wire: JsonValue): JsonValue => ({ wires: [wire] });
const subflow = (properties: Record<string, JsonValue>): FlowNode[] => [
  { id: "s", type: "subflow", in: [], out: [], ...properties },
  functionNode("inner", { z: "s" }),
  { id: "i", type: "subflow:s", z: "u", ...position, wires: [[]] },
];

/** With each of these the runtime starts nothing, or nothing any more. */
const refused: readonly [path: string, message: string, flows: readonly FlowNode[]][] = [
  ["flows[1].links", "must be an array of node ids", [link("link in", "k")]],
  ["flows[1].links", "must be an array of node ids", [link("link out", { a: 1 })]],
  [
    "flows[1].libs[1]",
    "must be an object with module and var",
    [{ ...functionNode("f", { z: "u" }), libs: ["os", null] }],
  ],
  [
    "flows[1].z",
    'must not be "constructor", which the flow runtime can\'t use as a name',
    [{ ...functionNode("f", {}), z: ["constructor"] }],
  ],
  [
    "flows[1].out[0].wires[0].port",
    "must be the number of an output, at most 10000",
    subflow({ out: [port({ id: "inner", port: 1e9 })] }),
  ],
  [
    "flows[1].status.wires[0].port",
    "must be the number of an output, at most 10000",
    subflow({ status: port({ id: "inner", port: "__proto__" }) }),
  ],
  // The runtime would count so far.
  ["flows[1].scope", "must be an array of node ids", [{ ...link("complete", []), scope: { length: 1e15 } }]],
];

test.each(refused)("refuses %s", (path, message, flows) => {
  expect(failure(() => parseFlows(toSubmittedNodes([tab("u"), ...flows])))).toBe(`invalid_flows ${path}: ${message}`);
});

test.each(refused.slice(0, 4))("the runtime does not start flows with %s", async (_path, _message, flows) => {
  expect(await deploy([tab("u", { disabled: true }), ...flows])).not.toBe("runs");
  expect(await deploy([])).toBe("runs");
});

test("refuses a group with nodes that are no list, which the runtime can't compare", async () => {
  const group = (name: string, nodes: JsonValue): FlowNode[] => [
    tab("u"),
    { id: "g", type: "group", z: "u", name, nodes },
  ];
  expect(failure(() => parseFlows(toSubmittedNodes(group("b", {}))))).toBe(
    "invalid_flows flows[1].nodes: must be an array of node ids",
  );
  expect(await deploy(group("a", []))).toBe("runs");
  expect(await deploy(group("b", {}))).not.toBe("runs");
  expect(await deploy([])).toBe("runs");
});

test("accepts what the runtime does not read", () => {
  const flows = [
    tab("u"),
    { ...functionNode("disabled", { z: "u" }), d: true, libs: [null] },
    { ...functionNode("function", { z: "u" }), links: "x", nodes: {} },
    { id: "in", type: "link in", z: "u", ...position, links: "", wires: [] },
    { id: "group", type: "group", z: "u", nodes: null },
  ];
  expect(parseFlows(toSubmittedNodes(flows)).flows).toEqual(flows);
});
