import { connect } from "node:net";
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

test("bodies on the port of Node-RED's tools share the memory of those on the port of the API", async () => {
  expect((await deployByTool()).status).toBe(204);
  const { hostname, port } = new URL(service.toolsUrl);
  const slow = connect({ host: hostname, port: Number(port) });
  await once(slow, "connect");
  // Its body does not arrive. It takes all that one client may have.
  slow.write(
    `POST /flows HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${tool}\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n\r\n`,
  );
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
