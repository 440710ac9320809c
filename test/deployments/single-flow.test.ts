import {
  type JsonObject,
  type JsonValue,
  type MessageInitShape,
  create,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Flow, FlowSchema, type SubflowSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { type FlowNode, type ParsedFlows, parseFlows } from "@flowgate/flows";
import { toNodes } from "../../src/deployments/messages/flow-nodes.ts";
import { findFlow, nodesOf, parseFlow, replaceNodes, toFlow } from "../../src/deployments/messages/single-flow.ts";
import { failure, node, sets } from "../../packages/flows/test/builders.ts";
import { codePoint } from "../../packages/gateway/test/code-point.ts";

type FlowInit = MessageInitShape<typeof FlowSchema>;

const place = { x: 1, y: 1 };

const document: readonly FlowNode[] = [
  { id: "c0", type: "broker" },
  { id: "t1", type: "tab", label: "one", disabled: false, env: [] },
  { id: "s1", type: "subflow", name: "sub", in: [] },
  { id: "n1", type: "debug", z: "t1", ...place },
  { id: "m1", type: "debug", z: "t2", ...place },
  { id: "n2", type: "inject", z: "t1", ...place, wires: [["n1"]] },
  { id: "c1", type: "broker", z: "t1" },
  { id: "g1", type: "group", z: "t1", nodes: ["n1"] },
  { id: "t2", type: "tab" },
  { id: "i1", type: "debug", z: "s1", ...place },
  { id: "i2", type: "broker", z: "s1" },
  { id: "o1", type: "debug", ...place },
  { id: "c2", type: "broker", z: "nowhere" },
];

/** Reads the flow, and returns the document in which `flow` replaces it. */
function replace(nodes: readonly FlowNode[], id: string, flow: Flow): { flows: FlowNode[]; parsed: ParsedFlows } {
  const parts = findFlow(nodes, id);
  if (parts === undefined) {
    throw new Error(`there is no flow ${id}`);
  }
  const replaced = new Set(nodesOf(parts));
  const others = nodes.filter((each) => !replaced.has(each));
  const parsed = parseFlow(flow, { id, replaced: parts, others });
  return { flows: replaceNodes(nodes, replaced, parsed.flows), parsed };
}

function read(nodes: readonly FlowNode[], id: string): Flow {
  const parts = findFlow(nodes, id);
  if (parts === undefined) {
    throw new Error(`there is no flow ${id}`);
  }
  return toFlow(id, parts, "r1");
}

const ids = (nodes: readonly { id: string }[]): string => nodes.map(({ id }) => id).join(" ");

test("a flow is a tab with the nodes, groups and configuration nodes on it", () => {
  const flow = read(document, "t1");
  expect([flow.id, flow.label, flow.disabled, flow.info, flow.properties, flow.rev]).toEqual([
    "t1",
    "one",
    false,
    undefined,
    { env: [] },
    "r1",
  ]);
  expect(ids(flow.nodes)).toBe("n1 n2 g1");
  expect(ids(flow.configs)).toBe("c1");
  expect(flow.subflows).toEqual([]);
});

test("the global flow has the subflows, and the configuration nodes outside of tabs and subflows", () => {
  const flow = read(document, "global");
  expect(ids(flow.configs)).toBe("c0 c2");
  expect(ids(flow.nodes)).toBe("");
  expect(
    flow.subflows.map(({ id, type, properties, nodes, configs }) => [id, type, properties, ids(nodes), ids(configs)]),
  ).toEqual([["s1", "subflow", { name: "sub", in: [] }, "i1", "i2"]]);
});

test("the ids of subflows, nodes and unknown tabs are no flows", () => {
  expect(["s1", "n1", "nowhere", ""].map((id) => findFlow(document, id))).toEqual(Array(4).fill(undefined));
});

test("nodes whose tab does not exist are a flow, which gets a tab when it is replaced", () => {
  const selection: FlowNode[] = [
    { id: "lost", type: "debug", z: "missing", ...place },
    { id: "c3", type: "broker", z: "missing" },
  ];
  const nodes = [...document, ...selection];
  const flow = read(nodes, "missing");
  expect([ids(flow.nodes), ids(flow.configs), flow.label]).toEqual(["lost", "c3", undefined]);
  const { flows } = replace(nodes, "missing", { ...flow, label: "found" });
  expect(flows.filter(({ z }) => z === "missing")).toEqual(selection);
  expect(flows.find(({ id }) => id === "missing")).toEqual({ id: "missing", type: "tab", label: "found" });
});

test("a replaced node keeps its place, a missing one is removed, and new ones are appended", () => {
  const flow = create(FlowSchema, {
    label: "new",
    nodes: [node({ id: "new", type: "debug" }), node({ id: "n2", type: "changed", properties: { z: "t2" } })],
    configs: [node({ id: "c1", type: "broker", credentials: { values: { user: "u" } } })],
    credentials: { values: { key: "k" } },
  });
  const { flows, parsed } = replace(document, "t1", flow);
  expect(ids(flows)).toBe("c0 t1 s1 m1 n2 c1 t2 i1 i2 o1 c2 new");
  expect(parsed.flows).toEqual([
    { id: "t1", type: "tab", label: "new" },
    { id: "new", type: "debug", z: "t1" },
    { id: "n2", type: "changed", z: "t1" },
    { id: "c1", type: "broker", z: "t1" },
  ]);
  expect(parsed.inline).toEqual(sets({ c1: { user: "u" }, t1: { key: "k" } }));
  const others = (nodes: readonly FlowNode[]) => nodes.filter(({ id }) => id.startsWith("m") || id === "t2");
  expect(others(flows)).toEqual(others(document));
});

test("a subflow can be added to the global flow, and its nodes get its id", () => {
  const flow = read(document, "global");
  flow.subflows = [
    ...flow.subflows,
    create(FlowSchema, { subflows: [{ id: "s2", nodes: [{ id: "i3", type: "debug" }] }] }).subflows,
  ].flat();
  const { flows } = replace(document, "global", flow);
  expect(flows).toEqual([...document, { id: "s2", type: "subflow" }, { id: "i3", type: "debug", z: "s2" }]);
});

describe("reading a flow and replacing it with the result changes nothing", () => {
  const json = fc
    .jsonValue({ maxDepth: 3 })
    .filter((value) => !JSON.stringify(value).includes("__proto__"))
    .map((value) => value as JsonValue);
  const text = fc.string({ unit: codePoint });
  // Names of fields of the messages, and of methods of objects.
  const name = fc.oneof(
    text,
    fc.constantFrom(
      "nodes",
      "configs",
      "subflows",
      "rev",
      "properties",
      "label",
      "disabled",
      "info",
      "env",
      "constructor",
    ),
  );
  const properties: fc.Arbitrary<JsonObject> = fc
    .dictionary(name, json, { maxKeys: 5, noNullPrototype: true })
    .map((object) => {
      const {
        id: _id,
        type: _type,
        credentials: _credentials,
        wires: _wires,
        __proto__: _proto,
        z: _z,
        g: _g,
        ...others
      } = object;
      return others;
    });
  const ids = ["a", "b", "c", "global", "x y/ü%2F:undo"];
  const element = fc.record({
    type: fc.constantFrom("tab", "tab", "subflow", "subflow:a", "group", "debug", "broker", "config"),
    z: fc.constantFrom(...ids, undefined, "nowhere", 7, null),
    x: fc.constantFrom(1, undefined),
    y: fc.constantFrom(2, 2, undefined),
    properties,
  });
  const documents = fc
    .tuple(...ids.map(() => element), fc.array(element, { maxLength: 12 }))
    .map((all): FlowNode[] =>
      all.flat().map(({ type, properties, ...place }, index) => {
        const defined = Object.entries(place).filter(([, value]) => value !== undefined);
        return { id: ids[index] ?? `n${index}`, type, ...properties, ...Object.fromEntries(defined) };
      }),
    )
    .filter((nodes) => isValid(nodes));

  test("in any document", () => {
    fc.assert(
      fc.property(documents, (nodes) => {
        for (const id of ["global", ...nodes.filter(({ type }) => type === "tab").map(({ id }) => id)]) {
          const flow = fromBinary(FlowSchema, toBinary(FlowSchema, read(nodes, id)));
          const { flows } = replace(nodes, id, flow);
          expect(flows.map(withoutOrder)).toEqual(nodes.map(withoutOrder));
        }
      }),
      { numRuns: 300 },
    );
  });

  function isValid(nodes: readonly FlowNode[]): boolean {
    try {
      parseFlows(toNodes(nodes));
      return true;
    } catch {
      return false;
    }
  }

  function withoutOrder(each: FlowNode): [string, JsonValue][] {
    return Object.entries(each).toSorted(([one], [other]) => (one < other ? -1 : 1));
  }
});

const subflow = (init: MessageInitShape<typeof SubflowSchema> = {}): FlowInit => ({
  subflows: [{ id: "s9", ...init }],
});

const invalid: readonly [name: string, id: string, flow: FlowInit, message: string][] = [
  [
    "a node without id",
    "t1",
    { nodes: [{ id: "n1", type: "t" }, { type: "t" }] },
    "flow.nodes[1].id: must not be empty",
  ],
  [
    "a repeated id",
    "t1",
    {
      nodes: [{ id: "a", type: "t" }],
      configs: [
        { id: "b", type: "t" },
        { id: "a", type: "t" },
      ],
    },
    'flow.configs[1].id: must be unique, and flow.nodes[0].id is "a" too',
  ],
  [
    "the id of the tab",
    "t1",
    { nodes: [{ id: "t1", type: "t" }] },
    'flow.nodes[0].id: must be unique, and flow.id is "t1" too',
  ],
  [
    "the id of a node of another flow",
    "t1",
    { nodes: [{ id: "m1", type: "t" }] },
    'flow.nodes[0].id: must be unique, and that of a node of another flow is "m1" too',
  ],
  [
    "a tab in a flow",
    "t1",
    { nodes: [{ id: "a", type: "tab" }] },
    'flow.nodes[0].type: must not be "tab": flows contain no tabs, and only the flow "global" has subflows',
  ],
  [
    "a subflow among configuration nodes",
    "t1",
    { configs: [{ id: "a", type: "subflow" }] },
    'flow.configs[0].type: must not be "subflow": flows contain no tabs, and only the flow "global" has subflows',
  ],
  ["subflows of a tab", "t1", subflow(), 'flow.subflows: must be absent: only the flow "global" has subflows'],
  ["a type", "t1", { properties: { type: "tab" } }, "flow.type: must be absent: a flow is always a tab"],
  [
    "a property with the name of a field",
    "t1",
    { properties: { rev: "x" } },
    "flow.properties.rev: must be set as the field rev, not as a property",
  ],
  [
    "a second value of a field",
    "t1",
    { disabled: true, properties: { disabled: 1 } },
    "flow.properties.disabled: must be set as the field disabled, not as a property",
  ],
  [
    "an invalid property",
    "t1",
    { properties: { env: "\ud800" } },
    "flow.env: must be valid Unicode, without lone surrogates",
  ],
  ["an invalid label", "t1", { label: "\ud800" }, "flow.label: must be valid Unicode, without lone surrogates"],
  [
    "a group in itself",
    "t1",
    { nodes: [{ id: "g", type: "group", properties: { g: "g" } }] },
    'flow.nodes[0].g: the group "g" must not contain itself, directly or through other groups',
  ],
  [
    "a group in a group of another tab",
    "t2",
    { nodes: [{ id: "g", type: "group", properties: { g: "g1" } }] },
    'flow.nodes[0].g: must be the id of a group on the same tab or subflow, and "g1" is not',
  ],
  [
    "a subflow in itself",
    "global",
    subflow({ nodes: [{ id: "i", type: "subflow:s9", properties: place }] }),
    'flow.subflows[0].nodes[0].type: the subflow "s9" must not contain itself, directly or through other subflows',
  ],
  [
    "a subflow of another type",
    "global",
    subflow({ type: "tab" }),
    'flow.subflows[0].type: must be "subflow", or absent',
  ],
  [
    "a property of a subflow with the name of a field",
    "global",
    subflow({ properties: { nodes: [] } }),
    "flow.subflows[0].properties.nodes: must be set as the field nodes, not as a property",
  ],
  [
    "a subflow with the id of a tab",
    "global",
    subflow({ id: "t1" }),
    'flow.subflows[0].id: must be unique, and that of a node of another flow is "t1" too',
  ],
  [
    "a label of the global flow",
    "global",
    { label: "" },
    'flow.label: must be absent: the flow "global" has only configs and subflows',
  ],
  [
    "nodes of the global flow",
    "global",
    { nodes: [{ id: "a", type: "t" }] },
    'flow.nodes: must be absent: the flow "global" has only configs and subflows',
  ],
  [
    "a property of the global flow",
    "global",
    { properties: { env: [] } },
    'flow.env: must be absent: the flow "global" has only configs and subflows',
  ],
  ...[{ z: "t1" }, place, { z: "s9" }].map((properties: JsonObject): (typeof invalid)[number] => [
    `a global configuration node with ${JSON.stringify(properties)}`,
    "global",
    {
      subflows: [{ id: "s9" }],
      configs: [
        { id: "a", type: "t", properties: {} },
        { id: "b", type: "t", properties },
      ],
    },
    "flow.configs[1]: must be a configuration node of all flows: without x and y, and without the z of a tab or subflow",
  ]),
];

describe("rejects", () => {
  test.each(invalid)("%s", (_name, id, flow, message) => {
    expect(failure(() => replace(document, id, create(FlowSchema, flow)))).toBe(`invalid_flows ${message}`);
  });

  test("a subflow that makes existing nodes contain each other", () => {
    const orphans: FlowNode[] = [
      { id: "a", type: "subflow:s9", z: "s8", ...place },
      { id: "b", type: "subflow:s8", z: "s9", ...place },
    ];
    const flow = create(FlowSchema, { subflows: [{ id: "s8" }, { id: "s9" }] });
    expect(failure(() => replace(orphans, "global", flow))).toBe(
      'invalid_flows flow: the unchanged node "a": the subflow "s8" must not contain itself, directly or through other subflows',
    );
  });
});
