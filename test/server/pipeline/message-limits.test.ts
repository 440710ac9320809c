import http2 from "node:http2";
import { once } from "node:events";
import { gzipSync } from "node:zlib";
import { Code, type ConnectRouter } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { services } from "../../../src/services/api.ts";
import { maxBodyBytesOf, withMethodRule } from "../../../packages/gateway/src/schema/rules.ts";
import { send } from "../../e2e/rest.ts";

const { issueToken } = AuthService.method;
const limit = 16 * 1024 * 1024;

async function open(tokens: typeof issueToken = issueToken) {
  return openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "silent" }),
    routes: (router: ConnectRouter) =>
      void router
        .rpc(tokens, () => ({ accessToken: "a" }))
        .rpc(AuthService.method.getLogin, () => ({ type: "none" }))
        .rpc(FlowsService.method.setFlows, () => ({ rev: "r" })),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    reflection: true,
    limits: { bodyBytes: limit },
  });
}

/** Unknown fields of two bytes each. */
const unknownFields = (length: number) => Buffer.alloc(length, Buffer.from([0x78, 0]));

/** One compressed message in a gRPC envelope. */
function envelope(message: Buffer): Buffer {
  const body = gzipSync(message);
  const head = Buffer.alloc(5);
  head[0] = 1;
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
}

async function callGrpc(url: string, path: string, message: Buffer) {
  const session = http2.connect(url);
  const headers = { "content-type": "application/grpc", "grpc-encoding": "gzip", te: "trailers" };
  const stream = session.request({ ":method": "POST", ":path": path, ...headers });
  stream.resume().end(envelope(message));
  const [trailers] = (await once(stream, "trailers")) as [http2.IncomingHttpHeaders];
  session.destroy();
  return [Number(trailers["grpc-status"]), trailers["grpc-message"]];
}

const small = [
  ["/grpc.health.v1.Health/Check", 4096],
  ["/grpc.health.v1.Health/List", 4096],
  ["/flowgate.v1.AuthService/GetLogin", 4096],
  ["/flowgate.v1.AuthService/IssueToken", 65_536],
] as const;
const smallStreams = [
  ["/grpc.health.v1.Health/Watch", 4096],
  ["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", 4096],
  ["/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", 4096],
] as const;

describe("a message that is small on the wire and large in memory", () => {
  const post = (url: string, path: string, body: Buffer) =>
    send(url, "POST", path, { headers: { "content-type": "application/proto", "content-encoding": "gzip" }, body });

  test.each(small)("is rejected by %s", async (path, most) => {
    await using server = await open();
    const reply = await post(server.url, path, gzipSync(unknownFields(limit)));
    expect([reply.status, reply.json()]).toMatchObject([
      429,
      { code: "resource_exhausted", message: `the request message is larger than ${most} bytes` },
    ]);
    expect((await post(server.url, path, gzipSync(unknownFields(most)))).status).not.toBe(429);
  });

  test.each([...small, ...smallStreams])("is rejected over gRPC by %s", async (path, most) => {
    await using server = await open();
    const large = [Code.ResourceExhausted, expect.stringMatching(/^the request message is larger than \d+ bytes$/)];
    expect(await callGrpc(server.url, path, unknownFields(2 * most))).toEqual(large);
  });

  test.each<[string, typeof issueToken, string, number]>([
    ["SetFlows, which has to take large ones", issueToken, "/flowgate.v1.FlowsService/SetFlows", 16_384],
    ["a method without max_body_bytes", withMethodRule(issueToken, {}), "/flowgate.v1.AuthService/IssueToken", 65_537],
  ])("is accepted by %s", async (_what, tokens, path, length) => {
    await using server = await open(tokens);
    const reply = await post(server.url, path, gzipSync(unknownFields(2 * length)));
    expect(reply.status).toBe(200);
  });
});

test("only deployments, plans, proposals, flows, packages of modules, injected messages, values of the context and entries of the library may be large", () => {
  const methods = services.flatMap((service) => service.methods);
  const large = methods.filter((method) => maxBodyBytesOf(method, limit) > 65_536).map(({ name }) => name);
  expect(large.toSorted()).toEqual([
    "CreateFlow",
    "CreateProposal",
    "InjectNode",
    "InstallModule",
    "PlanFlows",
    "SetContext",
    "SetFlows",
    "SetLibraryEntry",
    "UpdateFlow",
  ]);
});
