import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { Node } from "../../../gen/flowgate/v1/flows_pb.ts";
import { parseFlows } from "../src/parse-flows.ts";
import { type NodeInit, failure, node } from "./builders.ts";

function group(id: string, g: JsonValue, z = "tab"): Node {
  return node({ id, type: "group", properties: { z, g } });
}

function instance(id: string, subflow: string, z: string): Node {
  return node({ id, type: `subflow:${subflow}`, properties: { z, x: 1, y: 1 } });
}

const global = (credentials: NonNullable<NodeInit["credentials"]>) => node({ type: "global-config", credentials });
const subflow = (id: string): Node => node({ id, type: "subflow" });
const nodeWith = (properties: JsonObject): Node[] => [node({ properties })];
const parse = (json: string): JsonObject => JSON.parse(json) as JsonObject;

const invalid: [name: string, nodes: Node[], message: string][] = [
  ["an empty id", [node({ id: "" })], "flows[0].id: must not be empty"],
  ["an empty type", [node(), node({ id: "b", type: "" })], "flows[1].type: must not be empty"],
  ["a repeated id", [node(), node({ id: "b" }), node()], 'flows[2].id: must be unique, and flows[0].id is "a" too'],
  [
    "an id that is a property",
    nodeWith({ id: "b" }),
    "flows[0].properties.id: must be set as the node's id, not as a property",
  ],
  [
    "a type that is a property",
    nodeWith({ type: 1 }),
    "flows[0].properties.type: must be set as the node's type, not as a property",
  ],
  [
    "credentials that are a property",
    nodeWith({ credentials: {} }),
    "flows[0].properties.credentials: must be set as the node's credentials, not as a property",
  ],
  [
    "two labels",
    [node({ label: "x", properties: { label: 1 } })],
    "flows[0].properties.label: must be set as the node's label, not as a property",
  ],
  ["wires null", nodeWith({ wires: null }), "flows[0].wires: must be an array of arrays of node ids"],
  ["wires an object", nodeWith({ wires: {} }), "flows[0].wires: must be an array of arrays of node ids"],
  ["wires of strings", nodeWith({ wires: [[], "b"] }), "flows[0].wires[1]: must be an array of node ids"],
  ["wires to a number", nodeWith({ wires: [["b", 1]] }), "flows[0].wires[0][1]: must be a node id, a string"],
  [
    "a lone surrogate in a wire",
    nodeWith({ wires: [["\ud800"]] }),
    "flows[0].wires[0][0]: must be valid Unicode, without lone surrogates",
  ],
  ["NaN", nodeWith({ x: Number.NaN }), "flows[0].x: must be a finite number"],
  ["an infinity", nodeWith({ deep: [{ y: -Infinity }] }), "flows[0].deep[0].y: must be a finite number"],
  [
    "a lone surrogate in an id",
    [node({ id: "\udc00" })],
    "flows[0].id: must be valid Unicode, without lone surrogates",
  ],
  [
    "a lone surrogate in a type",
    [node({ type: "\udc00" })],
    "flows[0].type: must be valid Unicode, without lone surrogates",
  ],
  [
    "a lone surrogate in a label",
    [node({ label: "\udc00" })],
    "flows[0].label: must be valid Unicode, without lone surrogates",
  ],
  [
    "a lone surrogate in a property",
    nodeWith({ "odd key": ["ok", "\ud800!"] }),
    "flows[0]['odd key'][1]: must be valid Unicode, without lone surrogates",
  ],
  [
    "a lone surrogate in a key",
    nodeWith({ a: { "\ud800": 1 } }),
    String.raw`flows[0].a['\ud800']: the key must be valid Unicode, without lone surrogates`,
  ],
  [
    "a map of credentials of another type",
    [node({ credentials: { map: { KEY: "s3cret" } } })],
    "flows[0].credentials.map: must be a string: only nodes of the type global-config have credentials in map",
  ],
  [
    "many credentials of a node",
    [node({ credentials: { values: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`n${at}`, "v"])) } })],
    "flows[0].credentials: must have at most 1000 names",
  ],
  ["a map with a number", [global({ map: { KEY: 1 } })], "flows[0].credentials.map.KEY: must be a string"],
  [
    "a map with a flag of another name",
    [global({ map: { KEY: true } })],
    "flows[0].credentials.map.KEY: must be a string",
  ],
  [
    "a map with a lone surrogate",
    [global({ map: { KEY: "s\ud800cret" } })],
    "flows[0].credentials.map.KEY: must be valid Unicode, without lone surrogates",
  ],
  [
    "a map with __proto__",
    [global({ map: parse('{"__proto__": "x"}') })],
    "flows[0].credentials.map.__proto__: this key is not allowed",
  ],
  [
    "a credential beside a map",
    [global({ map: { KEY: "k" }, values: { OTHER: "s3cret" } })],
    "flows[0].credentials.OTHER: must be absent, or in map, since there are credentials in map",
  ],
  [
    "a lone surrogate in a credential",
    [node({ credentials: { values: { user: "s\ud800cret" } } })],
    "flows[0].credentials.user: must be valid Unicode, without lone surrogates",
  ],
  ["__proto__ as a property", nodeWith(parse('{"__proto__": {}}')), "flows[0].__proto__: this key is not allowed"],
  ["__proto__ below", nodeWith(parse('{"a": [{"__proto__": 1}]}')), "flows[0].a[0].__proto__: this key is not allowed"],
  [
    "__proto__ as a credential",
    [node({ credentials: { values: parse('{"__proto__": "x"}') as Record<string, string> } })],
    "flows[0].credentials.__proto__: this key is not allowed",
  ],
  ["hasOwnProperty as a property", nodeWith({ hasOwnProperty: 1 }), "flows[0].hasOwnProperty: this key is not allowed"],
  [
    "hasOwnProperty below",
    nodeWith({ a: { hasOwnProperty: 1 } }),
    "flows[0].a.hasOwnProperty: this key is not allowed",
  ],
  ["toString below", nodeWith({ a: [{ toString: "x" }] }), "flows[0].a[0].toString: this key is not allowed"],
  [
    "hasOwnProperty as a credential",
    [node({ credentials: { values: { hasOwnProperty: "x" } } })],
    "flows[0].credentials.hasOwnProperty: this key is not allowed",
  ],
  [
    "a group whose parent is missing",
    [group("g", "nowhere")],
    'flows[0].g: must be the id of a group on the same tab or subflow, and "nowhere" is not',
  ],
  [
    "a group whose parent is not a group",
    [node(), group("g", "a")],
    'flows[1].g: must be the id of a group on the same tab or subflow, and "a" is not',
  ],
  [
    "a group whose parent is on another tab",
    [group("p", "", "one"), group("g", "p", "two")],
    'flows[1].g: must be the id of a group on the same tab or subflow, and "p" is not',
  ],
  ["a group whose parent is a number", [group("g", 1)], "flows[0].g: must be a string, the id of a group"],
  [
    "a group in itself",
    [group("g", "g")],
    'flows[0].g: the group "g" must not contain itself, directly or through other groups',
  ],
  [
    "groups in each other",
    [group("child", "x"), group("x", "y"), group("y", "z"), group("z", "x")],
    'flows[1].g: the group "x" must not contain itself, directly or through other groups',
  ],
  [
    "a group named like a method",
    [group("g", "constructor")],
    'flows[0].g: must be the id of a group on the same tab or subflow, and "constructor" is not',
  ],
  [
    "a subflow in itself",
    [subflow("s"), instance("i", "s", "s")],
    'flows[1].type: the subflow "s" must not contain itself, directly or through other subflows',
  ],
  [
    "subflows in each other",
    [
      subflow("out"),
      subflow("s"),
      subflow("t"),
      instance("h", "s", "out"),
      instance("i", "s", "t"),
      instance("j", "t", "s"),
    ],
    'flows[4].type: the subflow "t" must not contain itself, directly or through other subflows',
  ],
  [
    "the first violation in document order",
    [node(), group("g", "x"), node({ id: "" })],
    'flows[1].g: must be the id of a group on the same tab or subflow, and "x" is not',
  ],
];

test.each(invalid)("rejects %s", (_, nodes, message) => {
  expect(failure(() => parseFlows(nodes))).toBe(`invalid_flows ${message}`);
});

test("shortens quoted input, because messages are sent in headers", () => {
  const message = failure(() => parseFlows(nodeWith({ ["k".repeat(10_000)]: { ["l".repeat(10_000)]: Number.NaN } })));
  expect(message.length).toBeLessThan(200);
});

test("keeps a label that is not a string as a property", () => {
  expect(parseFlows(nodeWith({ label: 5 })).flows).toEqual([{ id: "a", type: "inject", label: 5 }]);
});

test("accepts nested groups in any order", () => {
  const nodes = [group("inner", "outer"), group("outer", ""), group("other", null)];
  expect(parseFlows(nodes).flows).toHaveLength(3);
});

test("accepts a subflow that is used twice, and one without a definition", () => {
  const nodes = [
    subflow("s"),
    subflow("t"),
    instance("i", "t", "s"),
    instance("j", "t", "s"),
    instance("k", "missing", "t"),
  ];
  expect(parseFlows(nodes).flows).toHaveLength(5);
});

test("checks a chain of 20,000 subflows and groups without overflowing the stack", () => {
  const count = 20_000;
  const nodes = Array.from({ length: count }, (_, n) => [
    subflow(`s${n}`),
    instance(`i${n}`, `s${n + 1}`, `s${n}`),
    group(`g${n}`, n === 0 ? "" : `g${n - 1}`),
  ]).flat();
  expect(parseFlows(nodes).flows).toHaveLength(3 * count);
  expect(failure(() => parseFlows([...nodes, subflow(`s${count}`), instance("last", "s0", `s${count}`)]))).toBe(
    'invalid_flows flows[1].type: the subflow "s0" must not contain itself, directly or through other subflows',
  );
});

test("reads the map of a global-config node", () => {
  const map = { KEY: "k", has_KEY: true, has_GONE: false, has_text: "t", EMPTY: "" };
  const { inline } = parseFlows([global({ map })]);
  expect(inline).toEqual(new Map([["a", new Map(Object.entries({ KEY: "k", has_text: "t", EMPTY: "" }))]]));
});

test("separates credentials from the flows", () => {
  const { flows, inline } = parseFlows([node({ credentials: { values: { user: "u" } } }), node({ id: "b" })]);
  expect(flows).toEqual([
    { id: "a", type: "inject" },
    { id: "b", type: "inject" },
  ]);
  expect(inline).toEqual(new Map([["a", new Map([["user", "u"]])]]));
});
