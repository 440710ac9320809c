import type { JsonObject } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NodeChange } from "../../gen/flowgate/v1/diff_pb.ts";
import { DeploymentType, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { NodeAction } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService } from "../../gen/flowgate/v1/revisions_pb.ts";
import { deploy } from "./deploy.ts";
import { functionNode, installReporter, type Node, reporter, tab } from "./flow-builders.ts";
import { bearer, json, type Reply, v2 } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

const secret = "canary-of-a-credential";

let service: Service;
const tokens: Record<string, Record<string, string>> = {};

const base: Node[] = [
  tab("T"),
  reporter("a", "T", { wires: [["b"]], credentials: { secret } }),
  functionNode("b", { z: "T", func: "return msg;", wires: [[]] }),
  { id: "empty", type: "reporter", z: "T", x: null, y: 1, wires: [] },
];
/** `b` is changed, `empty` removed, `c` added with a type that is not installed. */
const target: Node[] = [
  tab("T"),
  reporter("a", "T", { wires: [["b"]] }),
  functionNode("b", { z: "T", func: "return null;", wires: [["gone"]] }),
];
const missing: Node = { id: "c", type: "not-installed", z: "T", x: 1, y: 1, wires: [] };

let baseRev: string;
let targetRev: string;

beforeAll(async () => {
  const users = [
    user("ada", "*"),
    user("reader", "flows.read"),
    user("historian", "revisions.read"),
    user("writer", "flows.write"),
  ];
  service = await startService({ config: { adminAuth: { type: "credentials", users } }, prepare: installReporter });
  for (const { username, permissions } of users) {
    tokens[username] = bearer(await login(service, { username, scope: String(permissions) }));
  }
  baseRev = await deploy(service, { flows: base }, "full", tokens["ada"]);
});
afterAll(() => service?.[Symbol.asyncDispose]());

type Json = { [key: string]: unknown };
type DiffRevisionResponseJson = { diff?: { containers: { nodes: Json[] }[] } };
type Sent = { readonly as?: string; readonly headers?: Record<string, string>; readonly body?: unknown };

async function send(method: string, path: string, { as = "ada", headers = {}, body }: Sent = {}): Promise<Reply> {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const reply = await service.send(method, path, { headers: { ...tokens[as], ...json, ...headers }, ...content });
  expect(reply.body).not.toContain(secret);
  return reply;
}

async function plan(flows: readonly Node[], headers: Record<string, string> = {}, as = "reader"): Promise<Json> {
  const reply = await send("POST", "/flows:plan", { as, headers, body: flows });
  expect({ status: reply.status, body: reply.body }).toMatchObject({ status: 200 });
  return reply.json() as Json;
}

const nodes = { "service-deployment-type": "nodes" };
const flows = { "service-deployment-type": "flows" };
const asText = { accept: "text/plain" };

describe("a plan", () => {
  test("describes what the deployment would do, and changes nothing", async () => {
    expect(await plan(target, nodes)).toEqual({
      rev: baseRev,
      diff: {
        containers: [
          {
            kind: "tab",
            id: "T",
            name: "tab T",
            nodes: [
              {
                id: "b",
                type: "function",
                role: "node",
                change: "changed",
                aspects: ["wires", "properties"],
                properties: [
                  { path: "func", before: "return msg;", after: "return null;" },
                  { path: "wires[0]", before: [], after: ["gone"] },
                ],
              },
              {
                id: "empty",
                type: "reporter",
                role: "node",
                change: "removed",
                properties: [
                  { path: "type", before: "reporter" },
                  { path: "z", before: "T" },
                  { path: "x", before: null },
                  { path: "y", before: 1 },
                  { path: "wires", before: [] },
                ],
              },
            ],
          },
        ],
      },
      nodes: [
        { id: "b", type: "function", tab: "T", action: "restart" },
        { id: "empty", type: "reporter", tab: "T", action: "stop" },
      ],
      missingTypes: [],
      modules: [],
      warnings: [
        {
          kind: "wire_to_nothing",
          nodeId: "b",
          container: "T",
          message:
            'function "b" in tab "tab T": it is wired to "gone", which is not a node that can receive its messages',
          existing: false,
        },
      ],
      activeOutcome: "running",
    });
    expect((await send("GET", "/flows", { headers: v2 })).json()).toMatchObject({ rev: baseRev });
  });

  test("depends on the deployment type", async () => {
    expect((await plan(target, flows))["nodes"]).toMatchObject([
      { id: "a", action: "restart" },
      { id: "b", action: "restart" },
      { id: "empty", action: "stop" },
    ]);
    expect((await plan([], { "service-deployment-type": "reload" }))["nodes"]).toMatchObject([
      { id: "a", action: "restart" },
      { id: "b", action: "restart" },
      { id: "empty", action: "restart" },
    ]);
  });

  test("lists types that are not installed, but none that is", async () => {
    const core = ["junction", "link in", "catch", "http in", "mqtt in", "comment", "inject"];
    const more = core.map((type) => ({ ...missing, id: type, type }));
    expect(await plan([...base, missing, ...more], nodes, "ada")).toMatchObject({
      nodes: [],
      missingTypes: [{ type: "not-installed", nodeIds: ["c"] }],
    });
  });

  test("includes changed credentials by name", async () => {
    const changed = target.map((node) =>
      node.id === "a" ? { ...node, credentials: { secret: `${secret} 2` } } : node,
    );
    expect(await plan(changed, nodes, "ada")).toMatchObject({
      diff: {
        containers: [{ nodes: [{ id: "a", aspects: ["credentials"], credentials: { changed: ["secret"] } }, {}, {}] }],
      },
      nodes: [{ id: "a", action: "restart" }, { id: "b" }, { id: "empty" }],
    });
  });

  test("is text for people by Accept", async () => {
    const reply = await send("POST", "/flows:plan", { headers: { ...nodes, ...asText }, body: target });
    expect(reply.headers).toMatchObject({ "content-type": "text/plain; charset=utf-8", vary: /Accept/ });
    expect(reply.body).toBe(`nodes to start: 0, to stop: 1, to restart: 1
warning: function "b" in tab "tab T": it is wired to "gone", which is not a node that can receive its messages

0 added, 1 removed, 1 changed

tab "tab T" (T)
  ~ function (b)
      func: "return msg;" -> "return null;"
      output 1: + (gone)
  - reporter (empty)
`);
  });

  test("of more nodes than the runtime could run is rejected", async () => {
    const levels = Array.from({ length: 12 }, (_, level) => [
      { id: `s${level}`, type: "subflow", name: `s${level}`, in: [], out: [] },
      ...Array.from({ length: level === 0 ? 0 : 10 }, (__, index) => ({
        id: `s${level} ${index}`,
        type: `subflow:s${level - 1}`,
        z: `s${level}`,
        x: 1,
        y: 1,
        wires: [],
      })),
    ]).flat();
    const flows = [...levels, tab("T"), { id: "top", type: "subflow:s11", z: "T", x: 1, y: 1, wires: [] }];
    const reply = await send("POST", "/flows:plan", { body: flows });
    expect(reply.json()).toMatchObject({
      code: "limit_exceeded",
      message: expect.stringContaining("more than 100000 nodes would run") as string,
    });
  });

  test("of large flows is made too", async () => {
    const many = Array.from({ length: 2_000 }, (_, index) =>
      functionNode(`f${index}`, { z: "T", func: "return msg;" }),
    );
    const { diff, nodes: planned } = (await plan([...base, ...many], flows, "ada")) as {
      diff: { containers: { nodes: Json[] }[] };
      nodes: Json[];
    };
    expect(diff.containers.map((container) => container.nodes.length)).toEqual([2_000]);
    expect(planned.filter(({ action }) => action === "start")).toHaveLength(2_000);
  });

  test("is the same over gRPC as over REST", async () => {
    const { message } = (await call(
      rpcProtocols.gRPC(service.url),
      FlowsService.method.planFlows,
      {
        flows: target.map(({ id, type, label, ...properties }) => ({
          id,
          type,
          ...(typeof label === "string" && { label }),
          properties: properties as JsonObject,
        })),
        deploymentType: DeploymentType.NODES,
      },
      tokens["reader"],
    )) as { message: { nodes: object[]; text: string } };
    expect(message).toMatchObject({
      rev: baseRev,
      nodes: [
        { id: "b", action: NodeAction.RESTART },
        { id: "empty", action: NodeAction.STOP },
      ],
      diff: { containers: [{ nodes: [{ properties: [{ path: "func" }, { path: "wires[0]" }] }, {}] }] },
    });
    expect(message.text).toBe(
      (await send("POST", "/flows:plan", { headers: { ...nodes, ...asText }, body: target })).body,
    );
  });

  test.for<[what: string, status: number, code: string, sent: Sent, query?: string]>([
    ["invalid flows", 400, "invalid_flows", { body: [tab("T"), tab("T")] }],
    ["an object without the header of API version v2", 400, "invalid_flows", { body: { flows: [] } }],
    ["an unknown type", 400, "invalid_deployment_type", { body: [], headers: { "service-deployment-type": "all" } }],
    ["a revision that is not active", 409, "version_mismatch", { body: { flows: [], rev: "other" }, headers: v2 }],
    [
      "If-Match with a revision that is not active",
      412,
      "precondition_failed",
      { body: [], headers: { "if-match": '"x"' } },
    ],
    ["an unknown base", 404, "not_found", { body: [] }, "?base=none"],
    [
      "credentials of a user without flows.write, who could guess stored ones",
      401,
      "",
      { body: [{ ...missing, credentials: { secret } }], as: "reader" },
    ],
    ["a user without flows.read", 401, "", { body: [], as: "writer" }],
  ])("is refused for %s, as the deployment", async ([, status, code, sent, query = ""]) => {
    const reply = await send("POST", `/flows:plan${query}`, sent);
    expect(reply.status).toBe(status);
    expect(reply.body).toContain(code);
  });
});

describe("a diff of revisions", () => {
  test("of large flows is the same over REST, from the thread's JSON, as over RPC", async () => {
    const many = (label: string) =>
      Array.from({ length: 1_500 }, (_, index) =>
        functionNode(`f${index}`, { z: "T", func: `return ${label}${index};` }),
      );
    const tokensOfAda = tokens["ada"];
    // Disabled, since each function that starts takes milliseconds.
    const container = { ...tab("T"), disabled: true };
    await deploy(service, { flows: [container, ...many("a")] }, "nodes", tokensOfAda);
    const rev = await deploy(service, { flows: [container, ...many("b")] }, "nodes", tokensOfAda);
    const overRest = (await send("GET", `/revisions/${rev}:diff`)).json() as DiffRevisionResponseJson;
    const overRpc = await call(
      rpcProtocols.gRPC(service.url),
      RevisionsService.method.diffRevision,
      { rev },
      tokensOfAda,
    );
    const nodes = (overRest.diff?.containers ?? []).flatMap((container) => container.nodes);
    expect(nodes).toHaveLength(1_500);
    expect(nodes[7]).toEqual({
      id: "f7",
      type: "function",
      role: "node",
      change: "changed",
      aspects: ["properties"],
      properties: [{ path: "func", before: "return a7;", after: "return b7;" }],
    });
    expect(overRpc).toMatchObject({
      message: { rev, diff: { containers: [{ nodes: nodes.map(({ id }) => ({ id, change: NodeChange.CHANGED })) }] } },
    });
    const text = await send("GET", `/revisions/${rev}:diff`, { headers: asText });
    expect(text.body).toContain("1500 changed");
  });

  beforeAll(async () => {
    targetRev = await deploy(service, { flows: target }, "nodes", tokens["ada"]);
  });

  const path = (rev: string, query = ""): string => `/revisions/${rev}:diff${query}`;

  test("is with the parent by default, and with any revision on demand", async () => {
    const toParent = (await send("GET", path(targetRev), { as: "historian" })).json() as Json;
    expect(toParent).toMatchObject({
      base: baseRev,
      rev: targetRev,
      diff: {
        containers: [
          {
            id: "T",
            nodes: [
              { id: "b", change: "changed" },
              { id: "empty", change: "removed" },
            ],
          },
        ],
      },
    });
    expect(toParent).not.toHaveProperty("text");
    const back = await send("GET", path(baseRev, `?base=${targetRev}`), { as: "historian" });
    expect(back.json()).toMatchObject({
      diff: { containers: [{ nodes: [{ id: "b" }, { id: "empty", change: "added", after: "b" }] }] },
    });
    expect((await send("GET", path(baseRev, `?base=${baseRev}`))).json()).toMatchObject({ diff: { containers: [] } });
  });

  test("of the first revision is with no flows", async () => {
    const { parent: first } = (await send("GET", `/revisions/${baseRev}`)).json() as { parent: string };
    expect((await send("GET", path(first))).json()).toEqual({ rev: first, diff: { containers: [] } });
  });

  test("is text for people by Accept", async () => {
    const reply = await send("GET", path(targetRev), { headers: asText });
    expect(reply.headers["content-type"]).toBe("text/plain; charset=utf-8");
    expect(reply.body).toContain("0 added, 1 removed, 1 changed\n\n");
  });

  test("is the same over gRPC as over REST", async () => {
    const outcome = await call(
      rpcProtocols.gRPC(service.url),
      RevisionsService.method.diffRevision,
      { rev: targetRev },
      tokens["historian"],
    );
    const { body } = await send("GET", path(targetRev), { headers: asText });
    expect(outcome).toMatchObject({ message: { base: baseRev, rev: targetRev, text: body } });
    const unknown = await call(
      rpcProtocols.gRPC(service.url),
      RevisionsService.method.diffRevision,
      { rev: targetRev, base: "none" },
      tokens["historian"],
    );
    expect(unknown).toMatchObject({ refused: { code: Code.NotFound, reason: "not_found" } });
  });

  test("requires revisions.read", async () => {
    expect((await send("GET", path(targetRev), { as: "reader" })).status).toBe(401);
  });
});
