import assert from "node:assert/strict";
import { toJson } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  GetRuntimeResponseSchema,
  ListNodeStatusesResponseSchema,
  RuntimeService,
} from "../../gen/flowgate/v1/runtime_pb.ts";
import { deploy } from "./deploy.ts";
import { endpoint, functionNode, type Node } from "./flow-builders.ts";
import { json } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { restNames } from "./watch-events.ts";

/** GET /ok passes a message through two nodes; GET /fail makes one log an error that a catch node receives, and a warning. */
const flows: Node[] = [
  ...endpoint("/ok", `node.status({ fill: "green", shape: "dot", text: "ready" });`),
  ...endpoint("/fail", `node.warn("careful"); node.error(new Error("caught"), msg);`),
  { id: "catch", type: "catch", z: "tab of /fail", x: 1, y: 1, name: "", scope: null, uncaught: false, wires: [[]] },
  functionNode("unused", { z: "tab of /ok", name: "Unused" }),
].map((node) => (node.id === "/fail function" ? { ...node, name: "Fails" } : node));

type NodeState = { readonly nodeId: string; readonly [field: string]: unknown };
type List = { readonly nodes: NodeState[]; readonly flows: object[]; readonly nextPageToken?: string };

let service: Service;
const list = async (query = ""): Promise<List> => (await service.send("GET", `/runtime/nodes${query}`)).json() as List;

beforeAll(async () => {
  service = await startService();
  await deploy(service, { flows });
  for (const path of ["/ok", "/fail", "/fail"]) {
    await service.get(path);
  }
  await eventually(async () => {
    const { nodes } = await list();
    const messages = nodes.reduce((sum, node) => sum + (node["messages"] as number), 0);
    assert.equal(messages, 8);
    // The runtime process reports what it uses from time to time.
    assert.ok("runtimeProcess" in ((await service.send("GET", "/runtime")).json() as object));
  });
});
afterAll(() => service?.[Symbol.asyncDispose]());

/** Fields that REST always has. */
const always = { alwaysEmitImplicit: true };

const time = expect.stringMatching(/^\d{4}-.*Z$/) as string;
const failing = {
  nodeId: "/fail function",
  nodeType: "function",
  nodeName: "Fails",
  flowId: "tab of /fail",
  flowLabel: "tab tab of /fail",
  errors: 2,
  warnings: 2,
  messages: 2,
  lastMessageTime: time,
  lastErrorTime: time,
  lastError: expect.objectContaining({ level: "error", message: "Error: caught", line: 1, caught: true }) as object,
};

test("nodes have counts, the last error and the status, and flows their sums", async () => {
  const { nodes, flows: sums } = await list();
  expect(nodes.map(({ nodeId }) => nodeId)).toEqual([
    "/fail function",
    "/fail out",
    "catch",
    "/ok function",
    "/ok out",
  ]);
  expect(nodes[0]).toEqual(failing);
  expect(nodes.find(({ nodeId }) => nodeId === "/ok function")).toEqual({
    nodeId: "/ok function",
    nodeType: "function",
    flowId: "tab of /ok",
    flowLabel: "tab tab of /ok",
    errors: 0,
    warnings: 0,
    messages: 1,
    lastMessageTime: time,
    status: { text: "ready", fill: "green", shape: "dot" },
  });
  expect(sums[0]).toEqual({
    flowId: "tab of /fail",
    flowLabel: "tab tab of /fail",
    nodes: 3,
    failingNodes: 1,
    errors: 2,
    warnings: 2,
    messages: 6,
    lastMessageTime: time,
    lastErrorTime: time,
    lastError: failing.lastError,
  });
});

test.each([
  ["?failing=true", ["/fail function"]],
  ["?tab=tab+of+/ok", ["/ok function", "/ok out"]],
  ["?tab=tab+of+/ok&failing=true", []],
  ["?node=Fails", ["/fail function"]],
  ["?node=http+response", ["/fail out", "/ok out"]],
  ["?node=catch", ["catch"]],
])("GET /runtime/nodes%s", async (query, expected) => {
  expect((await list(query)).nodes.map(({ nodeId }) => nodeId)).toEqual(expected);
});

test("pages have every node once, and the flows are on the first one", async () => {
  const seen: NodeState[] = [];
  let page = await list("?pageSize=3");
  expect(page.flows).toHaveLength(2);
  seen.push(...page.nodes);
  while (page.nextPageToken !== undefined) {
    page = await list(`?pageSize=3&pageToken=${page.nextPageToken}`);
    expect(page.flows).toEqual([]);
    expect(page.nodes.length).toBeLessThanOrEqual(3);
    seen.push(...page.nodes);
  }
  expect(seen).toEqual((await list()).nodes);
});

test("the responses over gRPC are those of REST", async () => {
  const transport = rpcProtocols.gRPC(service.url);
  const runtime = await call(transport, RuntimeService.method.getRuntime, {});
  const nodes = await call(transport, RuntimeService.method.listNodeStatuses, { pageSize: 2, failing: true });
  const rest = (await service.send("GET", "/runtime")).json() as object;
  // What is measured at another time differs.
  const usage = Object.fromEntries(
    ["runtimeProcess", "serviceProcess", "disk"].map((name) => [name, expect.any(Object) as object]),
  );
  expect("message" in runtime && restNames(toJson(GetRuntimeResponseSchema, runtime.message, always))).toMatchObject({
    ...rest,
    ...usage,
  });
  expect("message" in nodes && restNames(toJson(ListNodeStatusesResponseSchema, nodes.message, always))).toMatchObject(
    await list("?pageSize=2&failing=true"),
  );
});

test("the runtime has its state, and the number of nodes with errors", async () => {
  const reply = await service.send("GET", "/runtime");
  expect(reply.headers["cache-control"]).toBe("no-store");
  expect(reply.json()).toEqual({
    runtime: expect.objectContaining({ name: "node-red", state: "running" }) as object,
    rev: expect.any(String) as string,
    outcome: "degraded",
    started: true,
    failingNodes: 1,
    health: { state: "degraded", conditions: [expect.objectContaining({ kind: "nodes_failing" }) as object] },
    restarts: 0,
    runtimeProcess: expect.objectContaining({ heapBytes: expect.any(Number) as number }) as object,
    serviceProcess: expect.objectContaining({ heapBytes: expect.any(Number) as number }) as object,
    disk: { freeBytes: expect.any(Number) as number, totalBytes: expect.any(Number) as number },
  });
});

test("stopped flows have no nodes, and the runtime has when they were stopped", async () => {
  await using stopped = await startService();
  expect((await stopped.send("POST", "/runtime:stop", { headers: json, body: "{}" })).status).toBe(200);
  expect((await stopped.send("GET", "/runtime")).json()).toMatchObject({
    runtime: { state: "stopped" },
    outcome: "stopped",
    started: false,
    stopTime: time,
    failingNodes: 0,
  });
  expect((await stopped.send("GET", "/runtime/nodes")).json()).toEqual({ nodes: [], flows: [] });
});

test.each([
  ["?pageSize=-1", "pageSize: must not be negative"],
  ["?pageToken=no", "pageToken: must be the nextPageToken of the previous page"],
])("GET /runtime/nodes%s is rejected", async (query, message) => {
  const reply = await service.send("GET", `/runtime/nodes${query}`);
  expect([reply.status, reply.json()]).toEqual([400, { code: "invalid_argument", message }]);
});

test("a node that is deployed again counts from its start", async () => {
  const fixed = flows.map((node) => (node.id === "/fail function" ? { ...node, func: "return msg;" } : node));
  await deploy(service, { flows: fixed }, "nodes");
  await eventually(async () => {
    expect((await list("?failing=true")).nodes).toEqual([]);
    expect((await service.send("GET", "/runtime")).json()).toMatchObject({ failingNodes: 0 });
  });
});

test("a service that runs no flows has a state, but no nodes", async () => {
  await using idle = await startService({ config: withoutRuntime });
  expect((await idle.send("GET", "/runtime")).json()).toMatchObject({
    runtime: { state: "disabled" },
    outcome: "pending",
    failingNodes: 0,
  });
  const reply = await idle.send("GET", "/runtime/nodes");
  expect([reply.status, reply.json()]).toMatchObject([400, { code: "no_runtime" }]);
});
