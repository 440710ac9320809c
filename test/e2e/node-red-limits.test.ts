import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { eventually, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { loginTool, startToolService, type ToolService } from "./tools.ts";

let service: ToolService;
let tool: string;
let admin: Record<string, string>;
beforeAll(async () => {
  const limits = { memoryMb: 64, memoryWaitMs: 100 };
  const config = { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] }, limits };
  service = await startToolService({ config });
  tool = await loginTool(service, "admin");
  admin = bearer(await login(service, { username: "admin" }));
});
afterAll(() => service?.[Symbol.asyncDispose]());

const large = JSON.stringify([{ ...tab("t"), info: "x".repeat(100_000) }]);
const deployByTool = () => service.sendTool("POST", "/flows", { headers: { ...bearer(tool), ...json }, body: large });
const deployByApi = () => service.send("POST", "/flows", { headers: { ...admin, ...json }, body: large });

async function countOf(labels: string): Promise<number> {
  const { body } = await service.send("GET", "/metrics", { headers: admin });
  const line = body.split("\n").find((each) => each.startsWith(`flowgate_requests_total{${labels}}`));
  return Number(line?.split(" ").at(-1) ?? 0);
}

/** A request whose body does not arrive: it holds all the memory for bodies of its kind that one client may have. */
async function takeMemory(path: string, type: string): Promise<Socket> {
  const { hostname, port } = new URL(service.toolsUrl);
  const slow = connect({ host: hostname, port: Number(port) });
  await once(slow, "connect");
  slow.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${tool}\r\nContent-Type: ${type}\r\nContent-Length: 14000000\r\n\r\n`,
  );
  return slow;
}

test("bodies on the port of Node-RED's tools share the memory of those on the port of the API", async () => {
  expect((await deployByTool()).status).toBe(204);
  const slow = await takeMemory("/flows", "application/json");
  await eventually(async () => expect((await deployByTool()).status).toBe(503));
  const refused = await deployByTool();
  expect(refused.json()).toMatchObject({ code: "overloaded" });
  expect(refused.headers["retry-after"]).toMatch(/^\d$/);
  expect((await deployByApi()).status).toBe(503);
  // Short ones need none.
  const short = { headers: { ...bearer(tool), ...json }, body: JSON.stringify([tab("short")]) };
  expect((await service.sendTool("POST", "/flows", short)).status).toBe(204);
  slow.destroy();
  await eventually(async () => expect((await deployByTool()).status).toBe(204));
  expect((await deployByApi()).status).toBe(204);
});

const post = (path: string, body: string) =>
  service.sendTool("POST", path, { headers: { ...bearer(tool), ...json }, body });
const list = (path: string) => service.sendTool("GET", `/library/local/${path}`, { headers: bearer(tool) });

test("a folder of the library is listed whole, a part at a time, in the memory of requests", async () => {
  const info = "x".repeat(60_000);
  const names = Array.from({ length: 40 }, (_, at) => `f${at}`).toSorted();
  for (const name of [...names, "b/below", "a/c/below"]) {
    const entry = { info, fn: "another", text: "return msg;" };
    expect((await post(`/library/local/large/${name}`, JSON.stringify(entry))).status).toBe(204);
  }
  expect((await list("large")).json()).toEqual(["a", "b", ...names.map((fn) => ({ info, fn }))]);
  expect((await list("large/a/")).json()).toEqual(["c"]);
  expect((await list("large/absent")).status).toBe(404);
  expect((await list("other")).json()).toEqual([]);
  // Listings take of the same memory as bodies that are not decoded.
  const slow = await takeMemory("/nodes", "multipart/form-data; boundary=b");
  await eventually(async () => expect((await list("large")).status).toBe(503));
  slow.destroy();
  await eventually(async () => expect((await list("large")).status).toBe(200));
});

const nested = (depth: number): string => `{"a":`.repeat(depth) + "1" + "}".repeat(depth);
const levels = { status: 400, code: "invalid_argument", message: "the body is nested more than 100 levels deep" };
const values = {
  status: 413,
  code: "payload_too_large",
  message: "the body may have at most 65536 values: send less at once",
};

test.each([
  ["settings of many levels", "/settings/user", nested(40_000), levels],
  ["an entry of many levels", "/library/local/flows/deep", nested(101), levels],
  ["an entry of many values", "/library/local/flows/wide", `[${"{},".repeat(40_000)}1]`, values],
  ["settings of many values", "/settings/user", `{"a":[${"1,".repeat(70_000)}1]}`, values],
  [
    "an entry of many properties",
    "/library/local/functions/long",
    JSON.stringify({ text: "", info: "ä".repeat(40_000) }),
    {
      status: 413,
      code: "payload_too_large",
      message: /^the properties of an entry, apart from its text, may have at most 65536 bytes$/,
    },
  ],
  [
    "the name of a module in a large body",
    "/nodes",
    JSON.stringify({ module: "a", version: "x".repeat(2_000_000) }),
    { status: 413, code: "payload_too_large", message: "the body may have at most 1048576 bytes of JSON" },
  ],
])("refuses %s", async (_, path, body, { status, ...error }) => {
  const reply = await post(path, body);
  expect(reply).toMatchObject({ status });
  const { code, message } = reply.json() as typeof error;
  expect(code).toBe(error.code);
  expect(message).toMatch(error.message);
});

test("accepts settings of as many levels as flows may have", async () => {
  expect((await post("/settings/user", nested(100))).status).toBe(204);
  const { body } = await service.sendTool("GET", "/settings/user", { headers: bearer(tool) });
  expect(body).toBe(nested(100));
});

test("its requests are measured by RPC and code", async () => {
  const setFlows = `method="flowgate.v1.FlowsService/SetFlows",protocol="node-red"`;
  const before = await countOf(`${setFlows},code="ok"`);
  expect((await deployByTool()).status).toBe(204);
  await eventually(async () => expect(await countOf(`${setFlows},code="ok"`)).toBe(before + 1));
  expect(await countOf(`${setFlows},code="unavailable"`)).toBeGreaterThan(0);
  expect((await service.sendTool("GET", "/flows")).status).toBe(401);
  await eventually(async () =>
    expect(await countOf(`method="flowgate.v1.FlowsService/GetFlows",protocol="node-red",code="unauthenticated"`)).toBe(
      1,
    ),
  );
  // Whatever clients send: all others are one.
  for (const path of ["/absent", "/absent/../other", "/icons/none/none.svg"]) {
    await service.sendTool("GET", path, { headers: bearer(tool) });
  }
  const { body } = await service.send("GET", "/metrics", { headers: admin });
  const methods = body.matchAll(/^flowgate_requests_total\{method="([^"]*)",protocol="node-red"/gm);
  expect(new Set(Array.from(methods, ([, method]) => method))).toEqual(
    new Set(["flowgate.v1.FlowsService/GetFlows", "flowgate.v1.FlowsService/SetFlows", "other"]),
  );
});
