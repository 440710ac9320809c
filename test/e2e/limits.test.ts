import { Code } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { form, json, v2 } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { scrape } from "./scrape.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { user } from "./users.ts";

let service: Service;
beforeAll(async () => {
  service = await startService({ config: { limits: { headerBytes: 4_000, headersTimeoutMs: 500 } } });
});
afterAll(() => service[Symbol.asyncDispose]());

async function rev(): Promise<string> {
  return ((await service.send("GET", "/flows", { headers: v2 })).json() as { rev: string }).rev;
}

// Clients that want no deadline send the maximum number of hours, which exceeds the longest timer.
describe("the maximum deadline means none", () => {
  test.each([
    ["REST", "/flows", { "grpc-timeout": "99999999H" }, "[]"],
    ["Connect", "/flowgate.v1.FlowsService/SetFlows", { "connect-timeout-ms": "9999999999" }, "{}"],
  ])("%s", async (_protocol, path, deadline, body) => {
    const reply = await service.send("POST", path, { headers: { ...json, ...deadline }, body });
    expect(reply.status).toBeLessThan(300);
  });

  test("gRPC", async () => {
    const endless = { "grpc-timeout": "99999999H" };
    const transport = rpcProtocols.gRPC(service.url);
    const { message } = await transport.unary(FlowsService.method.setFlows, undefined, 0, endless, {});
    expect(message.rev).toBe(await rev());
  });
});

describe("a deadline that passes", () => {
  const targets = [
    ["REST", "/flows", "Service-API-Version: v2\r\n", JSON.stringify({ flows: [tab("late")] })],
    [
      "Connect",
      "/flowgate.v1.FlowsService/SetFlows",
      "Connect-Protocol-Version: 1\r\n",
      JSON.stringify({ flows: [{ id: "late", type: "tab" }] }),
    ],
  ] as const;

  /** Sends a deployment, and its end only after `enough` resolves. */
  async function deploySlowly(target: (typeof targets)[number], more: string, enough: Promise<unknown>) {
    const [, path, header, body] = target;
    using raw = await openRaw(service.port);
    raw.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${header}${more}Content-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
    );
    await enough;
    raw.write(body.slice(5));
    return await raw.until(/HTTP\/1.1 \d+[^]*\r\n\r\n[^]*}/);
  }

  /** Resolves after a deadline of this many ms that begins now. */
  async function after(timeoutMs: number): Promise<void> {
    using raw = await openRaw(service.port);
    const head = `POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n`;
    raw.write(`${head}Connect-Timeout-Ms: ${timeoutMs}\r\n\r\n[`);
    expect(await raw.until(/}/)).toMatch(/^HTTP\/1.1 504 .*deadline_exceeded/s);
  }

  test.each(targets)("before the deployment has begun, changes nothing: %s", async (protocol) => {
    const target = protocol === "REST" ? targets[0] : targets[1];
    const before = await rev();
    expect(await deploySlowly(target, "Connect-Timeout-Ms: 50\r\n", after(200))).toMatch(
      /HTTP\/1.1 504 .*deadline_exceeded/s,
    );
    // After the deadline, the implementation is not called, so that there is no deployment.
    expect((await scrape(service.url)).sum("flowgate_deployments_total", { outcome: "canceled" })).toBe(0);
    // A late deployment would be active by now.
    await deploy(service, { flows: [], rev: before });
    expect(await deploySlowly(target, "", after(200))).toMatch(/HTTP\/1.1 200 .*"rev"/s);
  });

  test("after the deployment is committed, is reported in the response, and does not stop the runtime", async () => {
    const hanging = (id: string) => [tab("t"), functionNode(id, { z: "t", initialize: block })];
    const over = { "connect-timeout-ms": "1500" };
    const reply = await tryDeploy(service, { flows: hanging("rest") }, "full", over);
    expect([reply.status, reply.json()]).toEqual([200, { rev: await rev() }]);

    const client = createGrpcTransport({ baseUrl: service.url, defaultTimeoutMs: 1_500 });
    const nodes = hanging("grpc").map(({ id, type, ...properties }) => ({ id, type, properties }) as never);
    const { message } = await client.unary(FlowsService.method.setFlows, undefined, 1_500, {}, { flows: nodes });
    expect(message.rev).toBe(await rev());
  });
});

describe("the options", () => {
  test("limit the headers of the whole service, and their timeout", async () => {
    const large = await service.send("GET", "/settings", { headers: { "x-large": "x".repeat(5_000) } });
    expect([large.status, large.json()]).toEqual([431, expect.objectContaining({ code: "headers_too_large" })]);
    using raw = await openRaw(service.port);
    raw.write("GET / HTTP/1.1\r\nX: ");
    expect(await raw.closed()).toMatch(/^HTTP\/1.1 408 /);
  });

  test("limit token requests independently of those for flows", async () => {
    await using closed = await startService({
      config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] } },
    });
    const username = "x".repeat(70_000);
    const reply = await closed.send("POST", "/auth/token", { headers: form, body: `username=${username}` });
    expect([reply.status, reply.json()]).toEqual([413, expect.objectContaining({ error: "invalid_request" })]);
    for (const protocol of ["Connect", "gRPC", "gRPC-Web"] as const) {
      const transport = rpcProtocols[protocol](closed.url);
      expect(await call(transport, AuthService.method.issueToken, { username })).toMatchObject({
        refused: { code: Code.ResourceExhausted, reason: "payload_too_large" },
      });
    }
    const flows = [{ ...tab("t"), info: username }];
    await deploy(service, { flows });
  });
});
