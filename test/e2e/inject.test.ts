import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { endpoint, functionNode, type Node, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

const place = { x: 1, y: 1 };

function inject(id: string, z: string, properties: object = {}): Node {
  const props = [
    { p: "payload", v: "by the button", vt: "str" },
    { p: "topic", v: "a topic", vt: "str" },
    { p: "deep.part", v: "1", vt: "num" },
  ];
  return {
    id,
    type: "inject",
    name: "",
    z,
    ...place,
    props,
    repeat: "",
    once: false,
    wires: [["keep"]],
    ...properties,
  };
}

/** GET /last responds with the last message that the node `keep` received. */
const flows: Node[] = [
  ...endpoint("/last", `msg.payload = global.get("last")`),
  tab("T"),
  inject("button", "T"),
  inject("off", "T", { d: true }),
  functionNode("keep", { z: "T", func: `global.set("last", { ...msg, _msgid: undefined }); return msg;` }),
  functionNode("stuck", { z: "T", func: block }),
  { id: "in", type: "http in", z: "T", ...place, url: "/in", method: "get", wires: [[]] },
  { ...tab("disabled tab"), disabled: true },
  inject("asleep", "disabled tab"),
  { id: "S", type: "subflow", name: "S", in: [{ ...place, wires: [{ id: "inner" }] }], out: [] },
  functionNode("inner", { z: "S", func: `global.set("last", { ...msg, _msgid: undefined, inner: true });` }),
  { id: "instance", type: "subflow:S", z: "T", ...place, name: "", wires: [] },
];

let service: Service;
let admin: Record<string, string>;

beforeAll(async () => {
  const users = [user("admin", "*"), user("reader", "read"), user("operator", ["runtime.inject"])];
  service = await startService({ config: { adminAuth: { users } } });
  admin = bearer(await login(service, {}));
  await deploy(service, { flows }, "full", admin);
});
afterAll(() => service?.[Symbol.asyncDispose]());

function send(id: string, message?: object, headers: Record<string, string> = admin) {
  const body = JSON.stringify(message === undefined ? {} : { message });
  return service.send("POST", `/runtime/nodes/${id}:inject`, { headers: { ...json, ...headers }, body });
}

async function last(): Promise<unknown> {
  return JSON.parse(await service.get("/last", admin));
}

test("an inject node sends its message, with the properties of the request instead of its own", async () => {
  const own = { payload: "by the button", topic: "a topic", deep: { part: 1 } };
  const cases: [object | undefined, object][] = [
    [undefined, own],
    [{}, own],
    [{ payload: { a: [1, null] } }, { ...own, payload: { a: [1, null] } }],
    [
      { deep: 5, "odd.name": true },
      { ...own, deep: 5, "odd.name": true },
    ],
  ];
  for (const [message, expected] of cases) {
    const { status, body } = await send("button", message);
    expect({ status, body }).toEqual({ status: 200, body: "{}" });
    await eventually(async () => expect(await last()).toEqual(expected));
  }
});

test("another node receives the message, also an instance of a subflow and a node in it", async () => {
  await send("keep", { payload: 1, topic: "t" });
  await eventually(async () => expect(await last()).toEqual({ payload: 1, topic: "t" }));
  for (const [index, id] of ["instance", "instance-inner"].entries()) {
    expect((await send(id, { payload: index })).status).toBe(200);
    await eventually(async () => expect(await last()).toEqual({ payload: index, inner: true }));
  }
});

test.each<[string, number, string, RegExp]>([
  ["nowhere", 404, "not_found", /^there is no node "nowhere" in the active flows$/],
  ["constructor", 404, "not_found", /^there is no node/],
  ["off", 400, "node_disabled", /^the node "off" is disabled/],
  ["asleep", 400, "node_disabled", /^the flow "tab disabled tab" of the node is disabled/],
  ["inner", 404, "not_found", /is in a subflow/],
  ["T", 400, "no_input", /^"T" is a tab/],
  ["in", 400, "no_input", /receives no messages/],
])("the node %s is refused with %i %s", async (id, status, code, message) => {
  const reply = await send(id, { payload: 1 });
  expect([reply.status, reply.json()]).toEqual([status, { code, message: expect.stringMatching(message) }]);
});

test("over gRPC", async () => {
  const transport = rpcProtocols.gRPC(service.url);
  const { injectNode } = RuntimeService.method;
  await call(transport, injectNode, { id: "keep", message: { payload: "over RPC" } }, admin);
  await eventually(async () => expect(await last()).toEqual({ payload: "over RPC" }));
  const failed = await call(transport, injectNode, { id: "nowhere" }, admin);
  expect(failed).toMatchObject({ refused: { code: Code.NotFound, reason: "not_found" } });
});

test("it needs a permission of its own, and is in the audit log", async () => {
  const reader = bearer(await login(service, { username: "reader", scope: "read" }));
  expect((await send("button", undefined, reader)).status).toBe(401);
  const operator = bearer(await login(service, { username: "operator", scope: "runtime.inject" }));
  expect((await send("button", undefined, operator)).status).toBe(200);
  await eventually(async () => {
    const reply = await service.send("GET", "/audit?kind=node_injected&user=operator", { headers: admin });
    const { entries } = reply.json() as { entries: object[] };
    expect(entries).toMatchObject([{ kind: "node_injected", subject: "button", user: "operator" }]);
  });
});

test("flows that block their event loop, or are stopped, do not hold the caller", async () => {
  const stuck = await send("stuck", {});
  expect([stuck.status, stuck.json()]).toMatchObject([504, { code: "flows_unresponsive" }]);
  await eventually(async () => expect((await readRuntime(service, admin)).state).toBe("running"));
  await service.send("POST", "/runtime:stop", { headers: admin });
  const stopped = await send("button");
  expect([stopped.status, stopped.json()]).toMatchObject([400, { code: "flows_stopped" }]);
  await service.send("POST", "/runtime:start", { headers: admin });
  expect((await send("button")).status).toBe(200);
});

test("a replica in standby names the one that runs the flows, also to who asks for context", async () => {
  await using database = await createDatabase();
  const config = { store: database.url, credentialSecret: "shared", runtime: { mode: "one", leaseMs: 2_000 } };
  await using first = await startService({ config });
  await using second = await startService({ config });
  await deploy(first, { flows });
  const path = "/runtime/nodes/keep:inject";
  const accepted = await first.send("POST", path, { headers: json, body: "{}" });
  expect([accepted.status, accepted.json()]).toMatchObject([
    200,
    { replica: expect.stringMatching(`:${first.port}$`) },
  ]);
  // It has to read first that the other one runs them.
  await eventually(async () => {
    for (const refused of [
      await second.send("POST", path, { headers: json, body: "{}" }),
      await second.send("GET", "/context"),
    ]) {
      expect([refused.status, refused.json()]).toMatchObject([
        400,
        { code: "no_runtime", message: expect.stringContaining(`:${first.port}`) },
      ]);
    }
  });
});
