import { describe, expect, test } from "vitest";
import type { Configuration, FlowNode } from "../../src/configuration.ts";
import { formatPlan, planDeployment } from "../../src/plan/plan.ts";
import { sets } from "../builders.ts";

const tab: FlowNode = { id: "T", type: "tab", label: "Orders" };
const subflow: FlowNode = { id: "S", type: "subflow", name: "Retry", in: [], out: [] };

function on(z: string, id: string, type: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type, z, x: 1, y: 1, wires: [], ...properties };
}

function plan(
  current: readonly FlowNode[],
  next: readonly FlowNode[],
  knownTypes?: ReadonlySet<string>,
  credentials: Partial<Configuration> = {},
) {
  const secrets = sets({ lost: { password: "hidden", user: "hidden" } });
  const target = { flows: next, credentials: new Map(), ...credentials };
  return planDeployment({ flows: current, credentials: secrets }, target, "nodes", { knownTypes, isRunning: true });
}

describe("warnings", () => {
  const warnings = (next: readonly FlowNode[], current?: readonly FlowNode[], credentials?: Partial<Configuration>) =>
    plan(current ?? [], [tab, subflow, ...next], undefined, credentials).warnings.map(
      ({ kind, nodeId, container, message }) => [kind, nodeId, container, message].join(" | "),
    );

  const lost = on("T", "lost", "mqtt in", { name: "in" });
  const entries = new Map([["lost", { type: "mqtt in", rev: "r1", names: ["user", "password"] }]]);
  const httpIn = (id: string, properties: Partial<FlowNode>): FlowNode =>
    on("T", id, "http in", { method: "get", ...properties });
  test.for<
    [
      what: string,
      next: readonly FlowNode[],
      warnings: readonly string[],
      current?: readonly FlowNode[],
      credentials?: Partial<Configuration>,
    ]
  >([
    [
      "nodes on a tab that does not exist, once",
      [
        on("gone", "a", "inject", { wires: [["b"]] }),
        on("gone", "b", "mqtt out", { broker: "c" }),
        { id: "c", type: "mqtt-broker", z: "gone" },
        { id: "wired", type: "function", z: "other", wires: [[]] },
      ],
      [
        'missing_tab | a | gone | inject "a" in tab "gone": there is no tab "gone" (z), as for 2 more nodes: the runtime starts it as on an enabled tab without a label',
        'missing_tab | wired | other | function "wired" in tab "other": there is no tab "other" (z): the runtime starts it as on an enabled tab without a label',
      ],
    ],
    [
      "nodes with coordinates and without z",
      [
        { id: "a", type: "inject", x: 1, y: 1, wires: [] },
        { id: "b", type: "debug", z: "", x: 1, y: 1, wires: [] },
      ],
      [
        'missing_tab | a |  | inject "a": it has x and y, but no tab (z), as for 1 more node: the runtime does not start it',
      ],
    ],
    [
      "none for configuration nodes, and for nodes in subflows",
      [
        { id: "c", type: "mqtt-broker" },
        { id: "d", type: "mqtt-broker", z: "gone" },
        on("S", "a", "mqtt in", { broker: "c" }),
        on("T", "b", "mqtt in", { broker: "d" }),
      ],
      [],
    ],
    [
      "a configuration node without users",
      [{ id: "c", type: "mqtt-broker", name: "main" }],
      ['unused_config | c |  | mqtt-broker "main": no node uses this configuration node'],
    ],
    [
      "none for one whose id another node contains at any depth",
      [{ id: "c", type: "mqtt-broker" }, on("T", "a", "mqtt in", { env: [{ value: "c" }] })],
      [],
    ],
    ["none for the global environment", [{ id: "c", type: "global-config" }], []],
    [
      "a wire to a node that does not exist",
      [on("T", "a", "inject", { wires: [["gone", "gone"]] })],
      [
        'wire_to_nothing | a | T | inject "a" in tab "Orders": it is wired to "gone", which is not a node that can receive its messages',
      ],
    ],
    [
      "a wire out of a subflow",
      [on("S", "a", "inject", { wires: [["b"]] }), on("T", "b", "debug")],
      [
        'wire_to_nothing | a | S | inject "a" in subflow "Retry": it is wired to "b", which is not a node that can receive its messages',
      ],
    ],
    [
      "none for a wire to another tab",
      [{ ...tab, id: "U" }, on("T", "a", "inject", { wires: [["b"]] }), on("U", "b", "debug")],
      [],
    ],
    [
      "none for wires between nodes without coordinates",
      [
        { id: "a", type: "http in", z: "T", method: "get", url: "/a", wires: [["b"]] },
        { id: "b", type: "http response", z: "T", wires: [] },
      ],
      [],
    ],
    [
      "a wire to a configuration node",
      [on("T", "a", "mqtt in", { broker: "c", wires: [["c"]] }), { id: "c", type: "mqtt-broker" }],
      [
        'wire_to_nothing | a | T | mqtt in "a" in tab "Orders": it is wired to "c", which is not a node that can receive its messages',
      ],
    ],
    [
      "the port of a subflow",
      [{ ...subflow, id: "R", out: [{ wires: [{ id: "gone", port: 0 }] }] }],
      [
        'wire_to_nothing | R | R | subflow "Retry" in subflow "Retry": its output is wired to "gone", which is not a node that can receive its messages',
      ],
    ],
    [
      "link nodes without a target",
      [on("T", "o", "link out", { links: [] }), on("T", "c", "link call", { links: ["gone"] })],
      [
        'link_to_nothing | o | T | link out "o" in tab "Orders": it is linked to nothing',
        'link_to_nothing | c | T | link call "c" in tab "Orders": it is linked to "gone", which is not a "link in" node',
      ],
    ],
    [
      "none for links that one end lists, returns and dynamic calls",
      [
        on("T", "i", "link in", { links: ["o"] }),
        on("T", "o", "link out", { links: [] }),
        on("T", "r", "link out", { mode: "return", links: [] }),
        on("T", "d", "link call", { linkType: "dynamic", links: [] }),
      ],
      [],
    ],
    [
      "a path that is served twice",
      [httpIn("a", { url: "/x" }), httpIn("b", { url: "x/" }), httpIn("c", { url: "/x", method: "post" })],
      ['duplicate_endpoint | b | T | http in "b" in tab "Orders": GET /x/ is served by "a" already'],
    ],
    [
      "paths that Express does not distinguish",
      [
        httpIn("a", { url: "/Orders/:id" }),
        httpIn("b", { url: "/orders/:order" }),
        httpIn("c", { url: "/orders//:id" }),
        httpIn("d", { url: "/n/:id(\\d+)" }),
        httpIn("e", { url: "/n/:id(\\D+)" }),
      ],
      ['duplicate_endpoint | b | T | http in "b" in tab "Orders": GET /orders/:order is served by "a" already'],
    ],
    [
      "a path that each instance of a subflow serves",
      [on("S", "h", "http in", { method: "get", url: "/x" }), on("T", "i", "subflow:S"), on("T", "j", "subflow:S")],
      [
        'duplicate_endpoint | h | S | http in "h" in subflow "Retry": GET /x is served by "h" already, in the instance "j"',
      ],
    ],
    [
      "none for paths that are disabled or differ",
      [
        httpIn("a", { url: "/x" }),
        httpIn("b", { url: "/x", d: true }),
        { ...tab, id: "U", disabled: true },
        { ...httpIn("c", { url: "/x" }), z: "U" },
        httpIn("d", { url: "/y" }),
      ],
      [],
    ],
    [
      "a removed node with credentials",
      [],
      [
        'lost_credentials | lost | T | mqtt in "in" in tab "Orders": it is removed, and its credentials are lost: password, user',
      ],
      [lost],
    ],
    [
      "a node with credentials whose type changes",
      [{ ...lost, type: "mqtt out" }],
      [
        'lost_credentials | lost | T | mqtt in "in" in tab "Orders": its type becomes "mqtt out", and its credentials are lost: password, user',
      ],
      [lost],
    ],
    [
      "none for one that has what was submitted for its new type",
      [{ ...lost, type: "mqtt out" }],
      [],
      [lost],
      { credentials: sets({ lost: { user: "new", password: "new" } }) },
    ],
    [
      "a removed node whose credentials come back with it",
      [],
      [
        'removed_credentials | lost | T | mqtt in "in" in tab "Orders": its credentials are removed with it: password, user; they come back if it is deployed again with this id and type, while revision r1 is in the history',
      ],
      [lost],
      { kept: entries },
    ],
    [
      "a node that comes back after its revision was removed",
      [lost],
      [
        'lost_credentials | lost | T | mqtt in "in" in tab "Orders": it comes back without its credentials, because the history has no revision r1 any more: password, user',
      ],
      [],
      { missing: entries },
    ],
    [
      "a node that comes back with another type, from a revision without the names",
      [{ ...lost, type: "mqtt out" }],
      [
        'lost_credentials | lost | T | mqtt out "in" in tab "Orders": it comes back without its credentials, because it had them with the type "mqtt in"',
      ],
      [],
      { missing: new Map([["lost", { type: "mqtt in", rev: "r1", names: [] }]]) },
    ],
  ])("%s", ([, next, expected, current, credentials]) => {
    expect(warnings(next, current, credentials)).toEqual(expected);
  });
});

test("marks the warnings that the current flows have too, also of a tab that is renamed", () => {
  const broken = on("T", "a", "inject", { wires: [["gone"]] });
  const config = { id: "c", type: "mqtt-broker", name: "main" };
  const user = on("T", "u", "mqtt in", { broker: "c" });
  const current = [tab, broken, config, user];
  const marked = (next: readonly FlowNode[]) =>
    plan(current, next).warnings.map(({ kind, nodeId, existing }) => [kind, nodeId, existing]);
  const renamed = { ...tab, label: "Renamed" };
  expect(marked([renamed, broken, config])).toEqual([
    // The removal of its only user is why it is unused.
    ["unused_config", "c", false],
    ["wire_to_nothing", "a", true],
  ]);
  const other = { ...broken, wires: [["gone", "other"]] };
  expect(marked([tab, other, config, user])).toEqual([
    ["wire_to_nothing", "a", true],
    ["wire_to_nothing", "a", false],
  ]);
});

test("lists the nodes in subflow instances by instance and definition", () => {
  const flows = [
    tab,
    subflow,
    on("S", "s", "debug", { name: "log" }),
    on("T", "i", "subflow:S"),
    on("T", "j", "subflow:S", { d: true }),
  ];
  const changed = flows.map((node) => (node.id === "s" ? { ...node, active: false } : node));
  expect(plan(flows, [...changed, on("T", "n", "debug")]).nodes).toEqual([
    { id: "s", type: "debug", name: "log", tab: "T", instances: ["i"], action: "restart" },
    { id: "i", type: "subflow:S", name: undefined, tab: "T", instances: [], action: "restart" },
    { id: "n", type: "debug", name: undefined, tab: "T", instances: [], action: "start" },
  ]);
});

test("starts nothing if a type is missing, and lists the nodes of that type", () => {
  const flows = [tab, on("T", "a", "debug")];
  const next = [
    tab,
    on("T", "b", "debug"),
    on("T", "c", "odd"),
    on("T", "d", "odd", { d: true }),
    on("T", "e", "subflow:S"),
  ];
  expect(plan(flows, next, new Set(["debug"]))).toMatchObject({
    nodes: [{ id: "a", action: "stop" }],
    missingTypes: [
      { type: "odd", nodeIds: ["c", "d"] },
      { type: "subflow:S", nodeIds: ["e"] },
    ],
  });
});

test("takes all types for installed if they are not known", () => {
  expect(plan([], [tab, on("T", "a", "odd")])).toMatchObject({
    missingTypes: [],
    nodes: [{ id: "a", action: "start" }],
  });
});

test("starts all nodes with a deployment of any type if the runtime is not running", () => {
  const configuration = { flows: [tab, on("T", "a", "debug")], credentials: sets({}) };
  const runtime = { knownTypes: undefined, isRunning: false };
  expect(planDeployment(configuration, configuration, "nodes", runtime)).toMatchObject({
    nodes: [{ id: "a", action: "start" }],
  });
});

test("formats a plan for people", () => {
  const next = [
    tab,
    on("T", "a", "odd"),
    on("T", "b", "function", { libs: [{ module: "left-pad@1" }], wires: [["gone"]] }),
    on("T", "c", "odd\u{7}"),
  ];
  expect(formatPlan(plan([tab, on("T", "z", "debug")], next, new Set(["function", "debug"])))).toBe(
    `nodes to start: 0, to stop: 1, to restart: 0
missing type: odd, of a; no node starts
missing type: odd\\u{7}, of c; no node starts
module: left-pad@1, missing, for b
warning: function "b" in tab "Orders": it is wired to "gone", which is not a node that can receive its messages
`,
  );
});

test("lists the modules that nodes load, without those of Node.js", () => {
  const next = [
    tab,
    on("T", "a", "function", {
      libs: [
        { var: "x", module: "@scope/name/file@^1.2" },
        { var: "fs", module: "node:fs" },
      ],
    }),
    on("T", "b", "function", {
      libs: [
        { var: "x", module: "@scope/name" },
        { var: "y", module: "plain" },
      ],
    }),
    on("T", "c", "function", { libs: [{ var: "x", module: "disabled" }], d: true }),
    { id: "g", type: "global-config", modules: { "node-red-contrib-x": "3.0.0" } },
  ];
  const missing = { state: "missing", installedVersion: undefined } as const;
  expect(plan([], next).modules).toEqual([
    { name: "@scope/name", version: "^1.2", nodeIds: ["a", "b"], flows: ["T"], ...missing },
    { name: "plain", version: undefined, nodeIds: ["b"], flows: ["T"], ...missing },
    { name: "node-red-contrib-x", version: "3.0.0", nodeIds: ["g"], flows: [], ...missing },
  ]);
});

test("a reload restarts the current flows", () => {
  const current = { flows: [tab, on("T", "a", "debug")], credentials: sets({}) };
  expect(
    planDeployment(current, { flows: [], credentials: sets({}) }, "reload", { knownTypes: undefined, isRunning: true }),
  ).toMatchObject({ nodes: [{ id: "a", action: "restart" }] });
});
