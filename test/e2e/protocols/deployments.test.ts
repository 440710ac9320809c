import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  DeploymentType,
  FlowsService,
  type NodeSchema,
  type SetFlowsRequestSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { json, v2 } from "../rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "../rpc.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { type Rest, type Row, rpc, testRows } from "./rows.ts";

let service: Service;
beforeAll(async () => {
  service = await startService({ config: withoutRuntime });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const versioned = (version: string): Record<string, string> => ({ ...json, "service-api-version": version });
const typed = (type: string): Record<string, string> => ({ ...json, "service-deployment-type": type });

const headerFaults: Row[] = [
  ...["v3", "V2", "", "v1,v2", "2"].map((version): Row => ({
    name: `version ${JSON.stringify(version)}`,
    rest: [
      ["GET", "/flows", { "service-api-version": version }],
      ["POST", "/flows", versioned(version), "[]"],
      // Before anything else is checked.
      ["POST", "/flows", { ...versioned(version), "content-type": "text/plain" }, "{"],
      ["POST", "/flows", { ...versioned(version), "service-deployment-type": "no" }, "{"],
    ],
    rejection: { status: 400, code: Code.Unknown, reason: "invalid_api_version" },
  })),
  ...["Full", "", "all", "full, nodes"].map((type): Row => ({
    name: `deployment type ${JSON.stringify(type)}`,
    rest: [
      ["POST", "/flows", typed(type), "[]"],
      ["POST", "/flows", { ...typed(type), ...v2 }, '{"flows":[]}'],
    ],
    rpc: rpc(FlowsService.method.setFlows, { flows: [], deploymentType: 99 as DeploymentType }),
    rejection: { status: 400, code: Code.InvalidArgument, reason: "invalid_deployment_type" },
  })),
  ...["Node-RED-Deployment-Type", "Node-RED-API-Version"].map((header): Row => ({
    name: `the header ${header}`,
    rest: [
      ["POST", "/flows", { ...json, [header]: "nodes" }, "[]"],
      ["POST", "/flows", { ...json, ...v2, [header.toLowerCase()]: "v2" }, '{"flows":[]}'],
      ["GET", "/flows", { [header]: "v2" }],
    ],
    rejection: {
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_argument",
      message: new RegExp(`^the header ${header}: .*: send ${header.replace("Node-RED", "Service")} instead`),
    },
  })),
];

type NodeInit = MessageInitShape<typeof NodeSchema>;
type SetFlowsInit = MessageInitShape<typeof SetFlowsRequestSchema>;

/** Invalid nodes, with the message and path of their error. */
function invalidNodes(name: string, path: string, nodes: unknown, rpcNodes?: NodeInit[]): Row {
  return invalidBody(name, path, { flows: nodes }, rpcNodes && { flows: rpcNodes }, [
    ["POST", "/flows", json, JSON.stringify(nodes)],
  ]);
}

function invalidBody(name: string, path: string, body: unknown, input?: SetFlowsInit, more: Rest[] = []): Row {
  return {
    name,
    rest: [["POST", "/flows", { ...json, ...v2 }, JSON.stringify(body)], ...more],
    ...(input !== undefined && { rpc: rpc(FlowsService.method.setFlows, input) }),
    rejection: {
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_flows",
      message: new RegExp(`^${RegExp.escape(path)}: `),
    },
  };
}

const tab = { id: "t", type: "tab" };
const group = (id: string, g?: string) => ({ id, type: "group", z: "t", ...(g !== undefined && { g }) });
const groupNode = (id: string, g?: string): NodeInit => ({
  id,
  type: "group",
  properties: { z: "t", ...(g !== undefined && { g }) },
});
const subflow = (id: string) => ({ id, type: "subflow", name: id });
const subflowNode = (id: string): NodeInit => ({ id, type: "subflow", properties: { name: id } });
const instance = (id: string, of: string, z: string) => ({ id, type: `subflow:${of}`, z });
const instanceNode = (id: string, of: string, z: string): NodeInit => ({
  id,
  type: `subflow:${of}`,
  properties: { z },
});

/** This many nested objects. */
function nested(levels: number): object {
  return levels === 1 ? {} : { a: nested(levels - 1) };
}

const bodyFaults: Row[] = [
  ...[{}, "text", 1, true, null, { flows: [] }].map((body): Row => ({
    name: `v1 with ${JSON.stringify(body)}`,
    rest: [["POST", "/flows", json, JSON.stringify(body)]],
    rejection: {
      status: 400,
      code: Code.Unknown,
      reason: "invalid_flows",
      message: /^(?:flows|the body): must be an array/,
    },
  })),
  ...[[], "text", 1, true, null].map((body): Row => ({
    name: `v2 with ${JSON.stringify(body)}`,
    rest: [["POST", "/flows", { ...json, ...v2 }, JSON.stringify(body)]],
    rejection: { status: 400, code: Code.Unknown, reason: "invalid_flows", message: /^the body: / },
  })),
  invalidBody("v2 without flows", "flows", {}),
  invalidBody("v2 with flows that are null", "flows", { flows: null }),
  invalidBody("v2 with flows that are an object", "flows", { flows: {} }),
  invalidBody("v2 with an unknown key", "flow", { flows: [], flow: [] }),
  ...[1, "a", null, [], true].map((element) =>
    invalidNodes(`a node that is ${JSON.stringify(element)}`, "flows[1]", [tab, element]),
  ),
  ...["id", "type"].flatMap((key) => {
    const other = { id: "a", type: "b" };
    const others = Object.fromEntries(Object.entries(other).filter(([name]) => name !== key));
    return [
      invalidNodes(`${key} missing`, `flows[1].${key}`, [tab, others], [tab, others]),
      invalidNodes(`${key} empty`, `flows[1].${key}`, [tab, { ...other, [key]: "" }], [tab, { ...other, [key]: "" }]),
      ...[1, null, {}, ["a"]].map((value) =>
        invalidNodes(`${key} ${JSON.stringify(value)}`, `flows[1].${key}`, [tab, { ...other, [key]: value }]),
      ),
    ];
  }),
  invalidNodes(
    "the same id twice",
    "flows[2].id",
    [tab, { id: "a", type: "b" }, tab],
    [tab, { id: "a", type: "b" }, tab],
  ),
  ...(
    [
      ["null", null, ""],
      ["an object", {}, ""],
      ["a text", "a", ""],
      ["an array of texts", ["a"], "[0]"],
      ["an array that holds null", [[], null], "[1]"],
      ["an array of arrays of numbers", [["a", 1]], "[0][1]"],
      ["an array of arrays of null", [[], [null]], "[1][0]"],
    ] as const
  ).map(([name, wires, path]) =>
    invalidNodes(
      `wires that are ${name}`,
      `flows[1].wires${path}`,
      [tab, { id: "a", type: "b", wires }],
      [tab, { id: "a", type: "b", properties: { wires: wires as never } }],
    ),
  ),
  ...(
    [
      ["null", null, ""],
      ["a text", "x", ""],
      ["an array", [], ""],
      ["an object with a number", { user: "u", password: 1 }, ".password"],
      ["an object with null", { password: null }, ".password"],
      ["an object with an object", { password: { a: "b" } }, ".password"],
    ] as const
  ).flatMap(([name, credentials, path]) => [
    invalidNodes(`inline credentials that are ${name}`, `flows[0].credentials${path}`, [{ ...tab, credentials }]),
    invalidBody(`separate credentials of a node that are ${name}`, `credentials.t${path}`, {
      flows: [tab],
      credentials: { t: credentials },
    }),
  ]),
  ...[null, "x", [], 1].map((credentials) =>
    invalidBody(`credentials ${JSON.stringify(credentials)}`, "credentials", { flows: [tab], credentials }),
  ),
  ...[null, 1, {}].map(($) =>
    invalidBody(`credentials.$ ${JSON.stringify($)}`, "credentials.$", { flows: [tab], credentials: { $ } }),
  ),
  invalidBody(
    "separate and encrypted credentials together",
    "credentials",
    { flows: [tab], credentials: { $: "x", t: { user: "u" } } },
    { flows: [tab], credentials: { encrypted: "x", nodes: { t: { values: { user: "u" } } } } },
  ),
  ...[null, 1, true, {}, []].map((rev) => invalidBody(`rev ${JSON.stringify(rev)}`, "rev", { flows: [], rev })),
  invalidNodes(
    "objects nested too deep",
    `flows[0]${".a".repeat(32)}`,
    [{ ...tab, a: nested(32) }],
    [{ ...tab, properties: { a: nested(32) as never } }],
  ),
  invalidNodes("a parent group that is missing", "flows[1].g", [tab, group("a", "b")], [tab, groupNode("a", "b")]),
  invalidNodes("a group that is its own parent", "flows[1].g", [tab, group("a", "a")], [tab, groupNode("a", "a")]),
  invalidNodes(
    "a cycle of groups",
    "flows[1].g",
    [tab, group("a", "b"), group("b", "c"), group("c", "a")],
    [tab, groupNode("a", "b"), groupNode("b", "c"), groupNode("c", "a")],
  ),
  invalidNodes(
    "a subflow that contains itself",
    "flows[1].type",
    [subflow("a"), instance("i", "a", "a")],
    [subflowNode("a"), instanceNode("i", "a", "a")],
  ),
  invalidNodes(
    "subflows that contain each other",
    "flows[2].type",
    [subflow("a"), subflow("b"), instance("i", "b", "a"), instance("j", "a", "b")],
    [subflowNode("a"), subflowNode("b"), instanceNode("i", "b", "a"), instanceNode("j", "a", "b")],
  ),
  {
    ...invalidBody(
      "encrypted credentials without a secret",
      "credentials.$",
      { flows: [tab], credentials: { $: "x" } },
      { flows: [tab], credentials: { encrypted: "x" } },
    ),
    rejection: {
      status: 400,
      code: Code.InvalidArgument,
      reason: "invalid_credentials",
      message: /^credentials\.\$: /,
    },
  },
];

testRows({ headers: headerFaults, bodies: bodyFaults }, () => ({ service, tokens: {} }));

const transports = () => rpcProtocolNames.map((name) => [name, rpcProtocols[name](service.url)] as const);
const deploy = (body: object, headers: Record<string, string> = {}) =>
  service.send("POST", "/flows", { headers: { ...json, ...v2, ...headers }, body: JSON.stringify(body) });
const active = async () =>
  (await service.send("GET", "/flows", { headers: v2 })).json() as { rev: string; flows: unknown[] };

test("a revision that is not the active one is rejected, with the active one in the error", async () => {
  const { rev } = await active();
  for (const given of ["", "other", `${rev} `, rev.toUpperCase()]) {
    const reply = await deploy({ flows: [tab], rev: given });
    expect([reply.status, reply.json()]).toEqual([
      409,
      {
        active: expect.objectContaining({ rev }) as unknown,
        code: "version_mismatch",
        message: expect.stringContaining(rev),
      },
    ]);
    for (const [protocol, transport] of transports()) {
      const outcome = await call(transport, FlowsService.method.setFlows, { flows: [tab], rev: given });
      expect({ protocol, ...outcome }).toMatchObject({
        protocol,
        refused: {
          code: Code.Aborted,
          reason: "version_mismatch",
          message: (reply.json() as { message: string }).message,
        },
      });
    }
  }
  expect(await active()).toEqual({ rev, flows: [] });
});

test("each accepted deployment has its own, over every protocol", async () => {
  const revs = new Set([(await active()).rev]);
  for (const [, transport] of transports()) {
    const outcome = await call(transport, FlowsService.method.setFlows, { flows: [tab], rev: (await active()).rev });
    if ("refused" in outcome) {
      throw new Error(outcome.refused.message);
    }
    expect(outcome.message.rev).toBe((await active()).rev);
    revs.add(outcome.message.rev);
  }
  const reply = await deploy({ flows: [tab], rev: (await active()).rev });
  expect([reply.status, reply.json()]).toEqual([200, { rev: (await active()).rev }]);
  revs.add((await active()).rev);
  const v1 = await deploy([tab], { "service-api-version": "v1" });
  expect([v1.status, v1.body, v1.headers["content-type"]]).toEqual([204, "", undefined]);
  revs.add((await active()).rev);
  const credentialsAlone = await deploy({ flows: [tab], credentials: { t: { user: "u" } } });
  expect(credentialsAlone.status).toBe(200);
  revs.add((await active()).rev);
  expect(revs.size).toBe(1 + rpcProtocolNames.length + 3);
});

test("reload ignores the body, and keeps the revision", async () => {
  const { rev } = await active();
  const headers = { "service-deployment-type": "reload" };
  for (const [body, type] of [
    [undefined, {}],
    ["[", json],
    ["<x/>", { "content-type": "text/plain" }],
  ] as const) {
    const v1 = await service.send("POST", "/flows", { headers: { ...headers, ...type }, ...(body && { body }) });
    expect([v1.status, v1.body]).toEqual([204, ""]);
  }
  const reply = await service.send("POST", "/flows", { headers: { ...headers, ...v2 } });
  expect([reply.status, reply.json()]).toEqual([200, { rev }]);
  for (const [protocol, transport] of transports()) {
    const outcome = await call(transport, FlowsService.method.setFlows, {
      deploymentType: DeploymentType.RELOAD,
      rev: "other",
      flows: [{}],
    });
    expect({ protocol, ...outcome }).toMatchObject({ protocol, message: { rev } });
  }
});
