import { Code, type Transport } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openNodeRed } from "../../bench/peers/open.ts";
import { DeploymentOutcome, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { deploy } from "./deploy.ts";
import { counting, endpoint, startsEndpoint, tab } from "./flow-builders.ts";
import { json, type Reply, send } from "./rest.ts";
import { call, type Outcome, type RpcProtocol, rpcProtocols } from "./rpc.ts";
import { type Service, startService } from "./service.ts";

let service: Service;
beforeAll(async () => {
  service = await startService({ config: { runtime: { freshProcess: "never" } } });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const { createFlow, deleteFlow, disableFlow, enableFlow, getFlow, updateFlow } = FlowsService.method;

function sendJson(url: string, method: string, path: string, body?: unknown): Promise<Reply> {
  return send(url, method, path, body === undefined ? {} : { headers: json, body: JSON.stringify(body) });
}

const rest = (method: string, path: string, body?: unknown): Promise<Reply> =>
  sendJson(service.url, method, path, body);

describe.each<RpcProtocol>(["Connect with JSON", "gRPC", "gRPC-Web"])("over %s", (name) => {
  let transport: Transport;
  beforeAll(async () => {
    transport = rpcProtocols[name](service.url);
    await deploy(service, { flows: [tab("other"), { id: "o1", type: "comment", z: "other", x: 1, y: 1 }] });
  });

  function messageOf<T extends object>(outcome: { message: T } | { refused: unknown }): T {
    if (!("message" in outcome)) {
      throw new Error(`the call was refused: ${JSON.stringify(outcome)}`);
    }
    return outcome.message;
  }

  function refusalOf(outcome: Outcome<(typeof updateFlow)["output"]>): unknown {
    return "refused" in outcome ? [outcome.refused.code, outcome.refused.reason, outcome.refused.message] : outcome;
  }

  test("a flow is created, read, replaced, disabled, enabled and deleted", async () => {
    const node = { id: "n1", type: "comment", properties: { x: 1, y: 1, name: "ü" } };
    const flow = { label: "new", properties: { env: [] }, nodes: [node] };
    const created = messageOf(await call(transport, createFlow, { flow, message: "a new flow" }));
    expect(created.outcome).toBe(DeploymentOutcome.RUNNING);
    const { id } = created;
    const read = messageOf(await call(transport, getFlow, { id }));
    expect(read).toMatchObject({ id, rev: created.rev, label: "new", properties: { env: [] } });
    expect(read.nodes).toMatchObject([{ ...node, properties: { ...node.properties, z: id } }]);

    const changed = messageOf(await call(transport, updateFlow, { id, flow: { ...read, info: "changed" } }));
    expect(changed).toMatchObject({ id, outcome: DeploymentOutcome.RUNNING });
    const late = await call(transport, updateFlow, { id, flow: read });
    expect(refusalOf(late)).toEqual([Code.Aborted, "version_mismatch", expect.stringContaining(changed.rev)]);
    const lateByRev = await call(transport, updateFlow, { id, flow, rev: created.rev });
    expect(refusalOf(lateByRev)).toEqual([Code.Aborted, "version_mismatch", expect.stringContaining(changed.rev)]);

    messageOf(await call(transport, disableFlow, { id }));
    const overRest = {
      id,
      label: "new",
      info: "changed",
      env: [],
      nodes: [{ id: "n1", type: "comment", z: id, x: 1, y: 1, name: "ü" }],
    };
    expect((await rest("GET", `/flow/${id}`)).json()).toEqual({ ...overRest, disabled: true, rev: expect.any(String) });
    messageOf(await call(transport, enableFlow, { id }));
    const enabled = (await rest("GET", `/flow/${id}`)).json() as { rev: string };
    expect(enabled).toEqual({ ...overRest, disabled: false, rev: expect.any(String) });
    messageOf(await call(transport, deleteFlow, { id, rev: enabled.rev }));
    const notFound = { refused: { code: Code.NotFound, reason: "not_found" } };
    expect(await call(transport, getFlow, { id })).toMatchObject(notFound);
    expect(await call(transport, deleteFlow, { id })).toMatchObject(notFound);
    expect((await rest("GET", "/flow/other")).json()).toMatchObject({ nodes: [{ id: "o1" }] });
  });

  test.each<
    [name: string, flow: Parameters<typeof call<(typeof updateFlow)["input"], never>>[2]["flow"], message: string]
  >([
    ["no flow", undefined, "flow: is missing"],
    ["a node without id", { nodes: [{ type: "t" }] }, "flow.nodes[0].id: must not be empty"],
    [
      "a property with the name of a field",
      { properties: { id: "x" } },
      "flow.properties.id: must be set as the node's id, not as a property",
    ],
  ])("%s is rejected", async (_name, flow, message) => {
    const outcome = await call(transport, updateFlow, { id: "other", ...(flow !== undefined && { flow }) });
    expect(refusalOf(outcome)).toEqual([Code.InvalidArgument, "invalid_flows", message]);
  });
});

describe("the runtime", () => {
  const starts = async () => JSON.parse(await service.get("/starts")) as Record<string, number>;
  const counter = (id: string, z: string) => counting(id, z, { name: "changed" });

  test("starts the nodes of the changed flow only", async () => {
    await deploy(service, { flows: [...startsEndpoint, tab("A"), counting("a", "A"), tab("B"), counting("b", "B")] });
    expect(await starts()).toMatchObject({ a: 1, b: 1 });
    await rest("PUT", "/flow/A", { nodes: [counter("a", "A")] });
    expect(await starts()).toMatchObject({ a: 2, b: 1 });
    const { id } = (await rest("POST", "/flow", { nodes: [counting("c", "")] })).json() as { id: string };
    expect(await starts()).toMatchObject({ a: 2, b: 1, c: 1 });
    await rest("POST", `/flow/${id}:disable`);
    await rest("POST", `/flow/${id}:enable`);
    expect(await starts()).toMatchObject({ a: 2, b: 1, c: 2 });
  });

  test("stops the nodes of a disabled flow, and starts them when it is enabled", async () => {
    const flows = endpoint("/hello", `msg.payload = "hello"`);
    await deploy(service, { flows });
    const path = `/flow/${encodeURIComponent("tab of /hello")}`;
    expect((await rest("POST", `${path}:disable`)).headers["service-deployment-outcome"]).toBe("running");
    expect(await service.get("/hello")).toContain("Cannot GET /hello");
    await rest("POST", `${path}:enable`);
    expect(await service.get("/hello")).toBe("hello");
    expect((await rest("DELETE", path)).status).toBe(204);
    expect(await service.get("/hello")).toContain("Cannot GET /hello");
  });

  test("undoes a change whose nodes can't be started", async () => {
    const flows = endpoint("/hello", `msg.payload = "hello"`);
    const rev = await deploy(service, { flows });
    const reply = await service.send("POST", "/flow", {
      headers: { ...json, "service-deployment-on-failure": "undo", "service-deployment-wait": "1" },
      body: JSON.stringify({ nodes: [{ id: "m", type: "comes-later", x: 1, y: 1 }] }),
    });
    expect(reply).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "undone" } });
    const { id, rev: active } = reply.json() as { id: string; rev: string };
    const history = (await rest("GET", "/revisions?pageSize=3")).json() as { revisions: Json[] };
    expect(history.revisions).toMatchObject([
      { rev: active, cause: "automatic_undo", restoredRev: rev },
      { rev: reply.headers["service-deployment-undone-rev"], cause: "flow", parent: rev, deploymentType: "flows" },
      { rev, cause: "deployment" },
    ]);
    expect((await rest("GET", `/flow/${id}`)).status).toBe(404);
    expect(await service.get("/hello")).toBe("hello");
  });
});

type Json = { readonly [key: string]: unknown };

describe("Node-RED's own API", () => {
  const place = { x: 1, y: 1 };
  const flows = [
    { id: "A", type: "tab", label: "A", disabled: false, info: "", env: [] },
    { id: "B", type: "tab", label: "B" },
    { id: "S", type: "subflow", name: "S", info: "", in: [], out: [] },
    { id: "a1", type: "inject", z: "A", ...place, wires: [["a2"]] },
    { id: "a2", type: "debug", z: "A", ...place, wires: [] },
    { id: "a3", type: "link out", z: "A", ...place, links: ["b1"], wires: [] },
    { id: "a4", type: "group", z: "A", nodes: ["a1"], name: "", ...place, w: 1, h: 1 },
    { id: "a5", type: "tls-config", z: "A", name: "scoped" },
    { id: "a6", type: "subflow:S", z: "A", ...place, wires: [] },
    { id: "b1", type: "link in", z: "B", ...place, links: ["a3"], wires: [["b2"]] },
    { id: "b2", type: "debug", z: "B", ...place, wires: [] },
    { id: "s1", type: "comment", z: "S", ...place, wires: [] },
    { id: "g1", type: "tls-config", name: "global" },
    { id: "g2", type: "tls-config", name: "global 2" },
  ];
  const steps: readonly [method: string, path: string, body?: unknown][] = [
    ["GET", "/flow/A"],
    ["GET", "/flow/B"],
    ["GET", "/flow/global"],
    ["GET", "/flow/unknown"],
    ["GET", "/flow/S"],
    ["PUT", "/flow/B", { label: "new B", nodes: [flows[10], { id: "b3", type: "comment", ...place }] }],
    ["GET", "/flow/B"],
    [
      "PUT",
      "/flow/A",
      {
        label: "new A",
        disabled: true,
        env: [],
        nodes: [flows[3], { ...flows[4], z: "B" }],
        configs: [{ id: "a7", type: "tls-config" }],
      },
    ],
    ["GET", "/flow/A"],
    ["PUT", "/flow/unknown", { label: "", nodes: [] }],
    [
      "POST",
      "/flow",
      {
        label: "C",
        info: "new",
        nodes: [{ id: "c1", type: "debug", z: "A", ...place }],
        configs: [{ id: "c2", type: "tls-config" }],
      },
    ],
    ["GET", "/flow/NEW"],
    ["POST", "/flow", { label: "D", nodes: [{ id: "c1", type: "debug" }] }],
    ["POST", "/flow", { label: "D", nodes: [{ id: "d1", type: "tab" }] }],
    [
      "PUT",
      "/flow/global",
      {
        configs: [
          { id: "g1", type: "tls-config", name: "changed" },
          { id: "g3", type: "tls-config" },
        ],
        subflows: [
          { ...flows[2], name: "new S", nodes: [{ id: "s2", type: "comment", z: "S", ...place }], configs: [] },
        ],
      },
    ],
    ["GET", "/flow/global"],
    ["DELETE", "/flow/A"],
    ["DELETE", "/flow/A"],
    ["DELETE", "/flow/global"],
    ["PUT", "/flow/NEW", { nodes: [] }],
    ["DELETE", "/flow/NEW"],
    ["GET", "/flow/global"],
    ["PUT", "/flow/B", {}],
    ["PUT", "/flow/global", { configs: [] }],
    ["POST", "/flow", { nodes: [] }],
  ];

  test("changes the same nodes in the same way", async () => {
    await using nodeRed = await openNodeRed();
    expect((await sendJson(nodeRed.url, "POST", "/flows", flows)).status).toBe(204);
    expect((await rest("POST", "/flows", flows)).status).toBe(204);
    const [expected, found] = await Promise.all([run(nodeRed.url), run(service.url)]);
    expect(found).toEqual(expected);
  });

  /** The results of all steps, each with the flows after it. The id of the new flow is replaced by NEW. */
  async function run(url: string): Promise<unknown[]> {
    const results: unknown[] = [];
    let newId = "NEW";
    const parse = ({ body }: Reply) => JSON.parse(body.replaceAll(newId, "NEW")) as unknown;
    for (const [method, path, body] of steps) {
      const reply = await sendJson(url, method, path.replace("NEW", newId), body);
      if (method === "POST" && reply.status === 200) {
        newId = (reply.json() as { id: string }).id;
      }
      const read = method === "GET" && reply.status === 200 ? normalize(parse(reply) as Json) : undefined;
      const after = sorted(parse(await sendJson(url, "GET", "/flows")) as Json[]);
      results.push({ step: `${method} ${path}`, status: reply.status, read, after });
    }
    return results;
  }

  /** Removes what Node-RED adds to nodes in responses, and what depends on the order. */
  function normalize({ rev: _rev, nodes = [], configs = [], subflows = [], ...flow }: Json): Json {
    return {
      ...flow,
      nodes: sorted(nodes as Json[]),
      configs: sorted(configs as Json[]),
      subflows: sorted((subflows as Json[]).map(normalize)),
    };
  }

  function sorted(nodes: readonly Json[]): Json[] {
    return nodes
      .map(({ _users, subflow: _subflow, ...node }) => (node["type"] === "link out" ? { ...node, wires: [] } : node))
      .toSorted((one, other) => (String(one["id"]) < String(other["id"]) ? -1 : 1));
  }
});
