import { Code } from "@connectrpc/connect";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../../gen/flowgate/v1/settings_pb.ts";
import { bearer, form, json } from "../rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "../service.ts";
import { login, user } from "../users.ts";
import { type Rejection, type Row, rpc, testRows } from "./rows.ts";

const users = [user("admin", "*"), user("writer", ["flows.write", "settings.read"])];
const config = { ...withoutRuntime, adminAuth: { users } };

let service: Service;
let dataDir: string;
const tokens = { good: "", readOnly: "", narrow: "", expired: "", revoked: "" };

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "flowgate-e2e-permissions-"));
  {
    // Issued before a restart: tokens and their revocations survive it.
    await using earlier = await startService({ dataDir, config });
    tokens.good = await login(earlier, {});
    tokens.revoked = await login(earlier, {});
    await earlier.send("POST", "/auth/revoke", {
      headers: { ...form, ...bearer(tokens.good) },
      body: `token=${tokens.revoked}`,
    });
  }
  {
    await using earlier = await startService({
      dataDir,
      config: { ...config, adminAuth: { users, tokenLifetimeSeconds: 1 } },
    });
    tokens.expired = await login(earlier, {});
    await eventually(async () => {
      const { status } = await earlier.send("GET", "/settings", { headers: bearer(tokens.expired) });
      if (status !== 401) {
        throw new Error("the token has not expired");
      }
    });
  }
  service = await startService({ dataDir, config });
  tokens.readOnly = await login(service, { scope: "read" });
  tokens.narrow = await login(service, { username: "writer", scope: "flows.write" });
});
afterAll(async () => {
  await service?.[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true, force: true });
});

/** The permissions of all operations are those of roles.test.ts. */
const protectedCalls: readonly (Pick<Row, "rest" | "rpc"> & { name: string })[] = [
  { name: "GetFlows", rest: [["GET", "/flows"]], rpc: rpc(FlowsService.method.getFlows, {}) },
  { name: "SetFlows", rest: [["POST", "/flows", json, "[]"]], rpc: rpc(FlowsService.method.setFlows, { flows: [] }) },
  {
    name: "RevokeToken",
    rest: [["POST", "/auth/revoke", form, "token=x"]],
    rpc: rpc(AuthService.method.revokeToken, { token: "x" }),
  },
];

const unauthorized = (reason: string, code: Code, parameters: string): { rejection: Rejection } => ({
  rejection: { status: 401, code, reason, challenge: `Bearer realm="flowgate"${parameters}` },
});

const invalidTokens: readonly [name: string, as: NonNullable<Row["as"]>][] = [
  ["an unknown token", bearer("x".repeat(43))],
  ["no token after Bearer", { authorization: "Bearer" }],
  ["HTTP Basic", { authorization: `Basic ${btoa("admin:admin")}` }],
  ["an expired token", "expired"],
  ["a revoked token", "revoked"],
];

const refused: Row[] = [
  ...protectedCalls.flatMap((each): Row[] => [
    { ...each, name: `${each.name} by nobody`, ...unauthorized("no_token", Code.Unauthenticated, "") },
    ...invalidTokens.map(([name, as]): Row => ({
      ...each,
      name: `${each.name} with ${name}`,
      as,
      ...unauthorized("invalid_token", Code.Unauthenticated, ', error="invalid_token"'),
    })),
  ]),
  ...(
    [
      ["GetFlows", "narrow", "flows.read"],
      ["SetFlows", "readOnly", "flows.write"],
    ] as const
  ).map(([operation, as, permission]): Row => {
    const { rest = [], rpc } = protectedCalls.find(({ name }) => name === operation) ?? {};
    return {
      name: `${operation} without ${permission}`,
      as,
      rest,
      ...(rpc !== undefined && { rpc }),
      ...unauthorized(
        "insufficient_scope",
        Code.PermissionDenied,
        `, error="insufficient_scope", scope="${permission}"`,
      ),
    };
  }),
  {
    name: "a token in the query string",
    as: "good",
    rest: [["GET", "/flows?access_token=x"]],
    ...unauthorized("invalid_token", Code.Unauthenticated, ', error="invalid_token"'),
  },
];

const accepted: Row[] = [
  {
    name: "a token from before a restart",
    as: "good",
    rest: [["GET", "/settings"]],
    rpc: rpc(SettingsService.method.getSettings, {}),
    response: expect.objectContaining({ user: { username: "admin", permissions: ["*"] } }),
  },
];

testRows({ refused, accepted }, () => ({ service, tokens }));

describe("calls are rejected before the body is read", () => {
  test.each([
    ["REST", "/flows", "application/json"],
    ["Connect", "/flowgate.v1.FlowsService/SetFlows", "application/proto"],
    ["gRPC-Web", "/flowgate.v1.FlowsService/SetFlows", "application/grpc-web+proto"],
  ])("over %s", async (_protocol, path, type) => {
    const socket = connect(service.port, "127.0.0.1");
    socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\nContent-Length: 60000\r\n\r\n[`);
    const [head] = (await once(socket, "data")) as [Buffer];
    socket.destroy();
    expect(head.toString()).toMatch(
      type.includes("grpc") ? /^HTTP\/1\.1 200 [^]*grpc-status: ?16/i : /^HTTP\/1\.1 401 /,
    );
  });

  test("over gRPC", async () => {
    const session = connectHttp2(service.url);
    try {
      const stream = session.request({
        ":method": "POST",
        ":path": "/flowgate.v1.FlowsService/SetFlows",
        "content-type": "application/grpc+proto",
        te: "trailers",
      });
      stream.write(Buffer.from([0, 0, 0, 4, 0, 1]));
      const [headers] = (await once(stream, "response")) as [Record<string, string>];
      stream.resume();
      const status =
        headers["grpc-status"] ?? ((await once(stream, "trailers")) as [Record<string, string>])[0]["grpc-status"];
      expect(String(status)).toBe("16");
    } finally {
      session.destroy();
    }
  });
});
