import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { LibraryService } from "../../../gen/flowgate/v1/library_pb.ts";
import { RuntimeService } from "../../../gen/flowgate/v1/runtime_pb.ts";
import { SettingsService } from "../../../gen/flowgate/v1/settings_pb.ts";
import { builtInRoles } from "../../../src/auth/permissions.ts";
import { bearer, form, json, v2 } from "../rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "../rpc.ts";
import { type Service, startService, withoutRuntime } from "../service.ts";
import { login, tokenParameters, user } from "../users.ts";
import { type Rejection, type Rest, type Row, rpc, testRows } from "./rows.ts";

const limit = 64 * 1024;

let service: Service;
let tokens: Readonly<Record<"good" | "readOnly", string>>;
beforeAll(async () => {
  const users = [user("admin", "*")];
  service = await startService({ config: { adminAuth: { users }, limits: { bodyBytes: limit } } });
  tokens = { good: await login(service, {}), readOnly: await login(service, { scope: "read" }) };
});
afterAll(() => service?.[Symbol.asyncDispose]());

// RPCs have the name of the enum's value.
const running = expect.stringMatching(/^(?:DEPLOYMENT_OUTCOME_RUNNING|running)$/);

const restarting: Row[] = [
  {
    name: "the flows are stopped",
    as: "good",
    rest: [["POST", "/runtime:stop"]],
    rpc: rpc(RuntimeService.method.stopFlows, {}),
    response: { rev: expect.any(String) },
  },
  {
    name: "the flows are started",
    as: "good",
    rest: [["POST", "/runtime:start"]],
    rpc: rpc(RuntimeService.method.startFlows, {}),
    response: { rev: expect.any(String), outcome: running },
  },
  {
    name: "the flows run in a new process",
    as: "good",
    rest: [["POST", "/runtime:restart"]],
    rpc: rpc(RuntimeService.method.restartRuntime, {}),
    response: { rev: expect.any(String), outcome: running },
  },
];

const greet = { text: "return msg;", details: { name: "greet" } };
const { setLibraryEntry } = LibraryService.method;
const deep = "[".repeat(101) + "]".repeat(101);
const invalidEntry = { status: 400, code: Code.InvalidArgument, reason: "invalid_argument" };

const library: Row[] = [
  {
    name: "an entry of the library is written",
    as: "good",
    rest: [["PUT", "/library/functions/a/greet.js", json, JSON.stringify(greet)]],
    rpc: rpc(setLibraryEntry, { type: "functions", path: "a/greet.js", content: greet }),
    response: {},
  },
  {
    name: "an entry of the library that is a folder",
    as: "good",
    rest: [["PUT", "/library/functions/a/", json, JSON.stringify(greet)]],
    rpc: rpc(setLibraryEntry, { type: "functions", path: "a/", content: greet }),
    rejection: { ...invalidEntry, message: "path: must be the path of an entry, such as tools/greet.js" },
  },
  {
    name: "flows of the library that are not JSON",
    as: "good",
    rest: [["PUT", "/library/flows/mine", json, JSON.stringify({ text: "{" })]],
    rpc: rpc(setLibraryEntry, { type: "flows", path: "mine", content: { text: "{" } }),
    rejection: { ...invalidEntry, message: "text: must be flows as JSON" },
  },
  {
    name: "flows of the library that take long to parse",
    as: "good",
    rest: [["PUT", "/library/flows/deep", json, JSON.stringify({ text: deep })]],
    rpc: rpc(setLibraryEntry, { type: "flows", path: "deep", content: { text: deep } }),
    rejection: { ...invalidEntry, message: "text: is nested more than 100 levels deep" },
  },
  {
    name: "an entry of the library, with a token that may only read",
    as: "readOnly",
    rest: [["PUT", "/library/functions/greet.js", json, JSON.stringify(greet)]],
    rpc: rpc(setLibraryEntry, { type: "functions", path: "greet.js", content: greet }),
    rejection: {
      status: 401,
      code: Code.PermissionDenied,
      reason: "insufficient_scope",
      challenge: 'Bearer realm="flowgate", error="insufficient_scope", scope="library.write"',
    },
  },
];

const reading: Row[] = [
  {
    name: "the login scheme is public",
    rest: [["GET", "/auth/login"]],
    rpc: rpc(AuthService.method.getLogin, {}),
    response: {
      type: "credentials",
      prompts: [
        { id: "username", type: "text", label: "Username" },
        { id: "password", type: "password", label: "Password" },
      ],
    },
  },
  {
    name: "the settings",
    as: "good",
    rest: [["GET", "/settings"]],
    rpc: rpc(SettingsService.method.getSettings, {}),
    response: {
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      apiVersions: ["v1", "v2"],
      runtime: {
        name: "node-red",
        version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
        state: "running",
        httpPort: expect.any(Number),
        // It depends on the machine.
        isolation: expect.anything(),
      },
      user: { username: "admin", permissions: ["*"] },
      roles: Array.from(builtInRoles, ([name, permissions]) => ({ name, permissions })),
    },
  },
  {
    name: "the settings, with a restricted token",
    as: "readOnly",
    rest: [["GET", "/settings"]],
    rpc: rpc(SettingsService.method.getSettings, {}),
    response: expect.objectContaining({ user: { username: "admin", permissions: ["read"] } }),
  },
  {
    name: "the flows, with their revision",
    as: "readOnly",
    rest: [["GET", "/flows", v2]],
    rpc: rpc(FlowsService.method.getFlows, {}),
    response: { flows: [], rev: expect.any(String) },
    headers: { etag: expect.stringMatching(/^"[^"]+"$/), vary: "Service-API-Version" },
  },
  {
    name: "the flows of v1",
    as: "good",
    rest: [
      ["GET", "/flows"],
      ["GET", "/flows", { "SERVICE-API-version": "v1" }],
    ],
    response: [],
    headers: { etag: expect.stringMatching(/^"[^"]+"$/) },
  },
];

const plain = (status: number, reason: string, headers: Record<string, unknown> = {}): { rejection: Rejection } => ({
  rejection: { status, code: Code.Unknown, reason, headers },
});

const httpFaults: Row[] = [
  {
    name: "an unknown path",
    rest: [
      ["GET", "/nowhere"],
      ["GET", "/flows/"],
      ["POST", "/nowhere"],
      ["GET", "/auth"],
      ["GET", `/${"long/".repeat(1000)}`],
    ],
    ...plain(404, "not_found"),
  },
  ...(
    [
      ["/flows", ["DELETE", "PUT", "PATCH"], "GET, POST, HEAD, OPTIONS"],
      ["/auth/token", ["GET", "HEAD"], "POST, OPTIONS"],
      ["/auth/login", ["POST"], "GET, HEAD, OPTIONS"],
      ["/settings", ["POST"], "GET, HEAD, OPTIONS"],
    ] as const
  ).map(([path, methods, allow]): Row => ({
    name: `${methods.join(" or ")} of ${path}`,
    as: "good",
    rest: methods.filter((method) => method !== "HEAD").map((method): Rest => [method, path]),
    ...plain(405, "method_not_allowed", { allow }),
  })),
  {
    name: "a response in HTML only",
    as: "good",
    rest: [
      ["GET", "/flows", { accept: "text/html" }],
      ["GET", "/settings", { accept: "application/json;q=0" }],
      ["POST", "/flows", { ...json, ...v2, accept: "image/*" }, '{"flows":[]}'],
    ],
    ...plain(406, "not_acceptable"),
  },
  {
    name: "flows with another content type",
    as: "good",
    rest: [
      ["POST", "/flows", { "content-type": "text/plain" }, "[]"],
      ["POST", "/flows", form, "flows=[]"],
      ["POST", "/flows", {}, "[]"],
    ],
    ...plain(415, "unsupported_media_type"),
  },
  {
    name: "flows beyond the limit",
    as: "good",
    rest: [
      ["POST", "/flows", json, JSON.stringify([{ id: "t", type: "tab", label: "x".repeat(limit) }])],
      [
        "POST",
        "/flows",
        { ...json, "transfer-encoding": "chunked" },
        JSON.stringify([{ id: "t", type: "tab", label: "x".repeat(limit) }]),
      ],
    ],
    rpc: rpc(FlowsService.method.setFlows, { flows: [{ id: "t", type: "tab", label: "x".repeat(limit) }] }),
    rejection: {
      status: 413,
      code: Code.ResourceExhausted,
      reason: expect.stringMatching(/too_large$/),
      // Connect itself rejects it, without a reason.
      rpcReason: expect.any(String),
    },
  },
];

testRows({ reading, library, httpFaults }, () => ({ service, tokens }));
// Each of them starts a process.
testRows({ restarting }, () => ({ service, tokens }), ["gRPC"]);

test("HEAD and OPTIONS follow HTTP", async () => {
  const headers = bearer(tokens.good);
  const get = await service.send("GET", "/flows", { headers });
  const head = await service.send("HEAD", "/flows", { headers });
  expect([head.status, head.body, head.headers["content-length"], head.headers.etag]).toEqual([
    200,
    "",
    String(get.body.length),
    get.headers.etag,
  ]);
  const options = await service.send("OPTIONS", "/flows");
  expect([options.status, options.headers.allow]).toEqual([204, "GET, POST, HEAD, OPTIONS"]);
  const token = await service.send("HEAD", "/auth/token");
  expect([token.status, token.headers.allow]).toEqual([405, "POST, OPTIONS"]);
});

describe("without adminAuth", () => {
  let open: Service;
  beforeAll(async () => {
    open = await startService({ config: withoutRuntime });
  });
  afterAll(() => open?.[Symbol.asyncDispose]());

  test("all clients have all permissions, and no token is issued", async () => {
    expect((await open.send("GET", "/auth/login")).json()).toEqual({});
    expect((await open.send("POST", "/flows", { headers: json, body: "[]" })).status).toBe(204);
    const settings = (await open.send("GET", "/settings")).json();
    expect(settings).not.toHaveProperty("user");
    const reply = await open.send("POST", "/auth/token", {
      headers: form,
      body: new URLSearchParams(tokenParameters()).toString(),
    });
    expect([reply.status, reply.json(), reply.headers["cache-control"]]).toEqual([
      400,
      { error: "invalid_request", error_description: expect.any(String) },
      "no-store",
    ]);
    const revoke = await open.send("POST", "/auth/revoke", { headers: form, body: "token=x" });
    expect([revoke.status, revoke.body]).toEqual([200, ""]);
  });

  test.for(rpcProtocolNames)("over %s too", async (protocol) => {
    const transport = rpcProtocols[protocol](open.url);
    expect(await call(transport, AuthService.method.getLogin, {})).toMatchObject({
      message: { type: "", prompts: [] },
    });
    expect(await call(transport, FlowsService.method.setFlows, { flows: [] })).toHaveProperty("message.rev");
    const { client_id: clientId, grant_type: grantType, ...others } = tokenParameters();
    expect(await call(transport, AuthService.method.issueToken, { ...others, clientId, grantType })).toMatchObject({
      refused: { code: Code.FailedPrecondition },
    });
  });

  test("GET of an RPC with side effects is rejected", async () => {
    const reply = await open.send("GET", "/flowgate.v1.FlowsService/SetFlows?message=%7B%7D&encoding=json&connect=v1");
    expect([reply.status, reply.headers.allow]).toEqual([405, "POST"]);
  });
});
