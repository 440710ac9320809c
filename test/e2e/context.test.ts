import { Code } from "@connectrpc/connect";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ContextService } from "../../gen/flowgate/v1/context_pb.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { endpoint, functionNode, type Node, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

/** Values that JSON can't represent, and that try to execute code when they are read. */
const hostile = `
  const explode = () => { for (;;); };
  const trap = { get: explode, ownKeys: explode, getOwnPropertyDescriptor: explode, has: explode };
  global.set("trap", { ok: 1, toJSON: explode, get inner() { return explode(); }, proxy: new Proxy({}, trap) });
  global.set("proxy", new Proxy({}, trap));
  global.set("thenable", { then: explode });
  global.set("many", Object.fromEntries(Array.from({ length: 100000 }, (_, index) => ["key " + index, index])));
  const keys = Array.from({ length: 100000 }, (_, index) => "key" + index);
  context.set(keys, keys);
  global.set("large", "x".repeat(3 * 1024 * 1024));
  const loop = { name: "loop" };
  loop.self = loop;
  global.set("loop", loop);
  global.set("map", new Map([[1, 2]]));
  global.set("\\"'odd' key\\"", 1);
  global.set(["a/b", "list"], [5, [{ deep: { er: "value" } }, 2]]);
`;

const flows: Node[] = [
  tab("T"),
  functionNode("own", { z: "T", initialize: `context.set("mine", "of the node"); flow.set("ours", { n: 1 });` }),
  functionNode("evil", { z: "T", initialize: hostile }),
  { ...tab("off"), disabled: true },
  { id: "S", type: "subflow", name: "S", in: [], out: [] },
  functionNode("inner", { z: "S", initialize: `flow.set("inside", 7);` }),
  { id: "instance", type: "subflow:S", z: "T", x: 1, y: 1, name: "", wires: [] },
  functionNode("leaking", { z: "T", initialize: `flow.set("leaked", { "my s3cret value": ["it is s3cret value"] });` }),
  { id: "broker", type: "mqtt-broker", name: "", broker: "127.0.0.1", port: "1", clientid: "" },
  functionNode("stray", { z: "missing", initialize: `flow.set("found", 1);` }),
  ...endpoint("/read", `msg.payload = JSON.stringify([global.get("set"), flow.get("set")])`),
];

let service: Service;
let admin: Record<string, string>;

beforeAll(async () => {
  const users = [user("admin", "*"), user("reader", "read"), user("debugger", ["context.read"])];
  service = await startService({ config: { adminAuth: { users } } });
  admin = bearer(await login(service, {}));
  await deploy(service, { flows, credentials: { broker: { password: "s3cret value" } } }, "full", admin);
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function send(method: string, path: string, body?: object, headers = admin): Promise<[number, unknown]> {
  const reply = await service.send(method, `/context${path}`, {
    headers: { ...headers, ...(body && json) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return [reply.status, reply.body === "" ? undefined : reply.json()];
}

test.each<[string, object]>([
  ["/flow/T/ours", { value: { n: 1 }, format: "object" }],
  ["/flow/T/ours.n?store=memory", { value: 1, format: "number" }],
  ["/flow/missing/found", { value: 1, format: "number" }],
  ["/flow/tab%20of%20%2Fread", { values: {} }],
  ["/flow/T/leaked", { value: { "my [redacted]": ["it is [redacted]"] }, format: "object", truncated: true }],
  ["/node/own/mine", { value: "of the node", format: "string[11]" }],
  ["/flow/instance/inside", { value: 7, format: "number" }],
  ["/global/list[0].deep.er", { value: "value", format: "string[5]" }],
  ["/global/a/b", { value: 5, format: "number" }],
  ["/global/a%2Fb", { value: 5, format: "number" }],
  [`/global/${encodeURIComponent(`"'odd' key"`)}`, { value: 1, format: "number" }],
  ["/global/map", { value: "[map]", format: "map", truncated: true }],
  ["/global/loop", { value: { name: "loop", self: "[circular]" }, format: "object", truncated: true }],
  ["/global/proxy", { value: "[proxy]", format: "proxy", truncated: true }],
  ["/global/thenable", { value: JSON.parse('{"then":"[function]"}') as object, format: "object", truncated: true }],
  ["/global/trap.inner", { value: "[getter]", format: "getter", truncated: true }],
  [
    "/global/trap",
    { value: { ok: 1, toJSON: "[function]", inner: "[getter]", proxy: "[proxy]" }, format: "object", truncated: true },
  ],
])("GET %s", async (path, expected) => {
  expect(await send("GET", path)).toEqual([200, expected]);
});

test("large values are cut, also if they are many", async () => {
  const { body: large } = await service.send("GET", "/context/global/large", { headers: admin });
  expect(large.length).toBeLessThan(1.1 * 1024 * 1024);
  expect(JSON.parse(large)).toMatchObject({
    value: expect.stringMatching(/^x{1000000}/),
    format: "string[3145728]",
    truncated: true,
  });
  for (const path of ["/context/global/many", "/context/global", "/context/node/evil"]) {
    const { status, body } = await service.send("GET", path, { headers: admin });
    expect(status).toBe(200);
    expect(body.length).toBeLessThan(1.5 * 1024 * 1024);
    expect(JSON.parse(body)).toMatchObject({ truncated: true });
  }
});

test("all scopes are listed with their keys", async () => {
  const [status, list] = await send("GET", "");
  expect([status, list]).toMatchObject([
    200,
    {
      stores: ["memory"],
      scopes: expect.arrayContaining([
        { scope: "flow/T", store: "memory", keys: expect.arrayContaining(["ours"]) as string[] },
        { scope: "node/own", store: "memory", keys: ["mine"] },
        { scope: "flow/instance", store: "memory", keys: ["inside"] },
        expect.objectContaining({ scope: "global", keys: expect.arrayContaining(["trap", "a/b", "'odd' key"]) }),
      ]),
    },
  ]);
  expect(await send("GET", "?store=memory")).toEqual([status, list]);
  const { scopes } = list as { scopes: { scope: string; keys: string[]; truncated?: boolean }[] };
  const many = scopes.find(({ scope }) => scope === "node/evil");
  expect(many?.keys).toHaveLength(1_000);
  expect(many?.truncated).toBe(true);
});

test("flows read what was set, and no longer what was deleted", async () => {
  const values = [{ deep: [1, null, "Zoë 🔑"] }, null, "text", 5, false, []];
  for (const value of values) {
    for (const scope of ["global", "flow/tab of %2Fread"]) {
      const path = `/${encodeURI(scope).replace("%252F", "%2F")}/set`;
      expect(await send("PUT", `${path}?store=memory`, { value })).toEqual([200, {}]);
      expect(await send("GET", path)).toMatchObject([200, { value }]);
    }
    expect(JSON.parse(await service.get("/read", admin))).toEqual([value, value]);
  }
  expect(await send("PUT", "/global/set", { value: {} })).toEqual([200, {}]);
  expect(await send("PUT", "/global/set.a[0].b", { value: 1 })).toEqual([200, {}]);
  expect(await send("GET", "/global/set")).toMatchObject([200, { value: { a: [{ b: 1 }] } }]);
  expect(await send("DELETE", "/global/set.a[0].b")).toEqual([204, undefined]);
  expect(await send("GET", "/global/set")).toMatchObject([200, { value: { a: [{}] } }]);
  for (const key of ["set.length", "set.a[2]", "toString", "set.b[0][9999]"]) {
    expect(await send("PUT", `/global/${key}`, { value: 1 })).toEqual([200, {}]);
    expect(await send("GET", `/global/${key}`)).toMatchObject([200, { value: 1 }]);
  }
  expect(await send("DELETE", "/global/toString")).toEqual([204, undefined]);
  expect(await send("DELETE", "/global/set")).toEqual([204, undefined]);
  expect(await send("DELETE", "/global/set")).toMatchObject([404, { code: "not_found" }]);
  expect(JSON.parse(await service.get("/read", admin))).toEqual([null, []]);
});

test.each<[string, string, number, RegExp]>([
  ["GET", "/elsewhere/x", 400, /^scope: "elsewhere\/x" must be global/],
  ["GET", "/flow", 400, /must be global, flow\/ID or node\/ID/],
  ["GET", "/global/", 400, /followed by \/KEY/],
  ["GET", "/global/missing", 404, /^scope: "global\/missing" has no value$/],
  ["GET", "/global/constructor", 404, /has no value/],
  ["GET", "/flow/T/hasOwnProperty", 404, /has no value/],
  ["DELETE", "/global/toString", 404, /has no value/],
  ["GET", "/flow/T/ours.n.deeper", 404, /has no value/],
  ["GET", "/flow/off/x", 404, /is no running flow or node/],
  ["GET", "/flow/constructor/x", 404, /is no running flow or node/],
  ["GET", "/node/nowhere/x", 404, /is no running flow or node/],
  ["GET", "/global/x?store=file", 404, /^store: there is no store "file"; there are memory$/],
  ["GET", "?store=file", 404, /^store: there is no store/],
  ["GET", "/global/a..b", 400, /^scope: Invalid property expression/],
  ["PUT", "/global", 400, /must be followed by \/KEY/],
  ["PUT", "/global/__proto__.polluted", 400, /must not contain __proto__/],
  ["PUT", "/flow/T/ours.n.deeper", 400, /"ours.n" is no object or array/],
  ["PUT", "/global/proxy.x", 400, /"proxy" is no object or array/],
  ["PUT", "/global/trap.inner.x", 400, /"trap.inner" is no object or array/],
  ["PUT", "/global/list[4294967294]", 400, /^scope: the index 4294967294 is too large: the array has 2 elements/],
  ["PUT", "/global/list['4294967294']", 400, /the index 4294967294 is too large/],
  ["PUT", "/global/list.length", 400, /the length of an array can't be set/],
  ["PUT", "/global/created[10000]", 400, /the index 10000 is too large: the array has 0 elements/],
  ["PUT", "/global/created.deep[0][10000].x", 400, /the index 10000 is too large/],
  ["DELETE", "/node/own", 400, /must be followed by \/KEY/],
])("%s %s is refused with %i", async (method, path, status, message) => {
  const reply = await send(method, path, method === "PUT" ? { value: 1 } : undefined);
  expect(reply).toEqual([status, { code: expect.any(String), message: expect.stringMatching(message) }]);
  expect((await readRuntime(service, admin)).state).toBe("running");
});

test("a value is required, and bounded", async () => {
  expect((await send("PUT", "/global/x", {}))[0]).toBe(400);
  expect((await send("PUT", "/global/x", { value: "x".repeat(1024 * 1024) }))[0]).toBe(413);
});

test("values are set, read, listed and deleted over gRPC", async () => {
  const transport = rpcProtocols.gRPC(service.url);
  const { setContext, getContext, listContext, deleteContext } = ContextService.method;
  const scope = "global/over_rpc";
  const content = { value: { kind: { case: "numberValue" as const, value: 7 } } };
  expect(await call(transport, setContext, { scope, content }, admin)).toMatchObject({ message: {} });
  const got = await call(transport, getContext, { scope }, admin);
  expect("message" in got && got.message.value && toJson(ValueSchema, got.message.value)).toBe(7);
  const all = await call(transport, getContext, { scope: "flow/T" }, admin);
  expect(all).toMatchObject({ message: { values: { ours: { n: 1 } } } });
  const listed = await call(transport, listContext, { store: "memory" }, admin);
  expect(listed).toMatchObject({ message: { stores: ["memory"] } });
  expect(await call(transport, deleteContext, { scope }, admin)).toMatchObject({ message: {} });
  const missing = await call(transport, getContext, { scope }, admin);
  expect(missing).toMatchObject({ refused: { code: Code.NotFound, reason: "not_found" } });
});

test("read does not include it, writing needs a permission of its own, and is in the audit log without the value", async () => {
  const reader = bearer(await login(service, { username: "reader", scope: "read" }));
  expect((await send("GET", "/flow/T", undefined, reader))[0]).toBe(401);
  const other = bearer(await login(service, { username: "debugger", scope: "context.read" }));
  expect((await send("GET", "/flow/T", undefined, other))[0]).toBe(200);
  expect((await send("PUT", "/flow/T/audited", { value: "secret" }, other))[0]).toBe(401);
  await send("PUT", "/flow/T/audited", { value: "secret" });
  await send("DELETE", "/flow/T/audited");
  await eventually(async () => {
    const reply = await service.send("GET", "/audit?kind=context_set&kind=context_deleted", { headers: admin });
    const { entries } = reply.json() as { entries: { subject: string }[] };
    expect(entries.filter(({ subject }) => subject === "flow/T/audited")).toMatchObject([
      { kind: "context_deleted", user: "admin" },
      { kind: "context_set", user: "admin" },
    ]);
    expect(reply.body).not.toContain("secret");
  });
});

// The last one. That a replica names the one that runs the flows is in inject.test.ts.
test("flows that are stopped have no context", async () => {
  await service.send("POST", "/runtime:stop", { headers: admin });
  expect(await send("GET", "/global/x")).toMatchObject([400, { code: "flows_stopped" }]);
});
