import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type ConnectRouter, type Transport, createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import * as grpc from "@grpc/grpc-js";
import { pino } from "pino";
import { describe, expect, test, vi } from "vitest";
import { AuthService, RevokeTokenRequestSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { peerKey } from "../../src/auth/caller.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { openServer } from "../../src/server/open-server.ts";
import type { ServerOptions } from "../../src/server/server-options.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { openRaw } from "./http/raw-connection.ts";

const megabyte = 1024 * 1024;

function routes(router: ConnectRouter): void {
  router.service(AuthService, {
    getLogin: (_request, context) => ({ type: `${context.requestMethod} ${context.values.get(peerKey).address}` }),
    issueToken: (request) => ({ accessToken: request.username, expiresIn: request.password.length }),
    revokeToken: () => ({}),
  });
  router.service(SettingsService, {
    getSettings: () => {
      throw new TypeError("the secret inside");
    },
  });
}

async function open(overrides: Partial<ServerOptions> = {}) {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "info", destination }),
    routes,
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: megabyte },
    ...overrides,
  });
  return Object.assign(server, { lines });
}

const rejectCall = (): never => {
  throw new FlowgateError("no_token", "a token is needed");
};

const transports: [string, (baseUrl: string) => Transport][] = [
  ["Connect over HTTP/1.1", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  ["Connect GET", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", useHttpGet: true })],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["gRPC-Web over HTTP/1.1", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
  ["gRPC-Web over HTTP/2", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2" })],
];

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return ConnectError.from(
    await call.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    ),
  );
}

describe.each(transports)("%s", (name, transport) => {
  test("calls an implementation with the peer in its context", async () => {
    await using server = await open();
    const { type } = await createClient(AuthService, transport(server.url)).getLogin({});
    expect(type).toBe(`${name === "Connect GET" ? "GET" : "POST"} 127.0.0.1`);
  });

  test("reports an unexpected error only with the request id, and logs it completely", async () => {
    await using server = await open();
    const log = vi.spyOn(console, "error");
    const failure = await failureOf(
      createClient(SettingsService, transport(server.url)).getSettings({}, { headers: { "x-request-id": "mine" } }),
    );
    expect(failure.code).toBe(Code.Internal);
    expect(failure.rawMessage).toBe("internal error; the log has the details under request mine");
    expect(failure.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "internal" }]);
    expect(server.lines).toMatchObject([
      { level: "error", requestId: "mine", err: { type: "TypeError", message: "the secret inside" } },
    ]);
    expect(log).not.toHaveBeenCalled();
  });

  test("reports an unexpected error of the gate, and logs it completely", async () => {
    await using server = await open({ gate: () => Promise.reject(new RangeError("the database")) });
    const failure = await failureOf(createClient(AuthService, transport(server.url)).getLogin({}));
    expect(failure.code).toBe(Code.Internal);
    expect(server.lines).toMatchObject([{ err: { type: "RangeError" } }]);
  });

  test("rejects a large message before it is read, and serves the next call", async () => {
    let closed = true;
    await using server = await open({ gate: () => (closed ? rejectCall() : undefined) });
    const client = createClient(AuthService, transport(server.url));
    // Beyond 10 MB Node's own HTTP/2 client gives up before it sends.
    const failure = await failureOf(client.revokeToken({ token: "x".repeat(8 * megabyte) }));
    expect(failure.code).toBe(Code.Unauthenticated);
    expect(failure.rawMessage).toBe("a token is needed");
    closed = false;
    await client.revokeToken({ token: "x" });
  });

  test("reports that a message is too large", async () => {
    await using server = await open();
    const client = createClient(AuthService, transport(server.url));
    const failure = await failureOf(client.revokeToken({ token: "x".repeat(2 * megabyte) }));
    expect(failure.code).toBe(Code.ResourceExhausted);
    await client.revokeToken({ token: "x" });
  });
});

test("serves and rejects calls of @grpc/grpc-js", async () => {
  let closed = true;
  await using server = await open({ gate: () => (closed ? rejectCall() : undefined) });
  const client = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure());
  const { input } = AuthService.method.revokeToken;
  const call = (token: string) =>
    new Promise<Buffer | undefined>((resolve, reject) => {
      client.makeUnaryRequest(
        "/flowgate.v1.AuthService/RevokeToken",
        (message: Uint8Array) => Buffer.from(message),
        (bytes: Buffer) => bytes,
        toBinary(input, create(RevokeTokenRequestSchema, { token })),
        (error, httpResponse) => (error === null ? resolve(httpResponse) : reject(error)),
      );
    });
  await expect(call("x".repeat(20 * megabyte))).rejects.toMatchObject({ code: grpc.status.UNAUTHENTICATED });
  closed = false;
  expect(await call("x")).toHaveLength(0);
  client.close();
});

describe("an upload that is not read", () => {
  const path = "/flowgate.v1.AuthService/RevokeToken";
  const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/proto\r\n`;
  const chunk = Buffer.alloc(megabyte, "x");

  test("gets its response while it is sent, and the connection serves the next request", async () => {
    await using server = await open({ gate: rejectCall });
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const ports = [];
    for (let i = 0; i < 2; i++) {
      const headers = { "content-type": "application/proto" };
      const request = http.request({ port: server.port, host: "127.0.0.1", path, method: "POST", headers, agent });
      request.end(Buffer.alloc(20 * megabyte));
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      expect(response.statusCode).toBe(401);
      expect(await text(response)).toContain("a token is needed");
      ports.push(request.socket?.localPort);
    }
    expect(new Set(ports).size).toBe(1);
    agent.destroy();
  });

  test.each([
    ["with Expect, by a client that does not wait", "Expect: 100-continue\r\n"],
    ["with Connection: close", "Connection: close\r\n"],
  ])("gets its response before the connection closes: %s", async (_what, header) => {
    await using server = await open({ gate: rejectCall });
    using raw = await openRaw(server.port);
    raw.write(`${head}${header}Content-Length: ${20 * megabyte}\r\n\r\n`);
    for (let i = 0; i < 20; i++) {
      raw.write(chunk);
    }
    const httpResponse = await raw.closed();
    expect(httpResponse).toMatch(/^HTTP\/1.1 401 .*Connection: close.*a token is needed/is);
  });

  test("does not get 100 Continue", async () => {
    await using server = await open({ gate: rejectCall });
    using raw = await openRaw(server.port);
    raw.write(`${head}Expect: 100-continue\r\nContent-Length: ${20 * megabyte}\r\n\r\n`);
    expect(await raw.closed()).toMatch(/^HTTP\/1.1 401 /);
  });

  test("of unknown length is rejected when it exceeds the limit, and the connection is kept", async () => {
    await using server = await open();
    using raw = await openRaw(server.port);
    raw.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 4; i++) {
      raw.write(`${megabyte.toString(16)}\r\n`);
      raw.write(chunk);
      raw.write("\r\n");
    }
    raw.write("0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await raw.until(/"ok"/)).toMatch(/^HTTP\/1.1 429 .*resource_exhausted.*HTTP\/1.1 200 /s);
  });
});

describe("outside of RPCs", () => {
  async function ask(port: number, request: string): Promise<string> {
    using raw = await openRaw(port);
    raw.write(request);
    return await raw.until(/}$/);
  }
  const parseError = (httpResponse: string) => ({
    status: Number(httpResponse.slice(9, 12)),
    type: /content-type: (.*)\r/i.exec(httpResponse)?.[1],
    ...(JSON.parse(httpResponse.slice(httpResponse.indexOf("{"))) as { code: string; message: string }),
  });

  test.each([
    ["nothing there", "GET /nowhere?token=s3cret HTTP/1.1\r\nHost: a\r\n\r\n", 404, "not_found"],
    ["a bad escape", "GET /%zz?token=s3cret HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid_request"],
    [
      "a body where nothing is",
      "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
      404,
      "not_found",
    ],
    [
      "a malformed content type",
      "POST /flowgate.v1.AuthService/GetLogin HTTP/1.1\r\nHost: a\r\nContent-Type: ;;\r\nContent-Length: 1\r\n\r\n{",
      415,
      "unknown",
    ],
    ["health is read only", "DELETE /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed"],
    // One of Connect's codes: its clients read the body.
    ["an RPC by PUT", "PUT /flowgate.v1.AuthService/GetLogin HTTP/1.1\r\nHost: a\r\n\r\n", 405, "unknown"],
    [
      "an RPC in XML",
      "POST /flowgate.v1.AuthService/GetLogin HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: 0\r\n\r\n",
      415,
      "unknown",
    ],
    [
      "an RPC with a bad Host",
      "POST /flowgate.v1.AuthService/GetLogin HTTP/1.1\r\nHost: [\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
      400,
      "invalid_request",
    ],
    [
      "an RPC over HTTP/1.0 without Host",
      "GET /flowgate.v1.AuthService/GetLogin HTTP/1.0\r\n\r\n",
      400,
      "invalid_request",
    ],
  ])("errors have one format: %s", async (_what, request, status, code) => {
    const log = vi.spyOn(console, "error");
    await using server = await open();
    const httpResponse = await ask(server.port, request);
    expect(parseError(httpResponse)).toEqual({ status, type: "application/json", code, message: expect.any(String) });
    expect(httpResponse).not.toContain("s3cret");
    expect(/^allow: /im.test(httpResponse)).toBe(status === 405);
    expect(log).not.toHaveBeenCalled();
  });

  test("health and readiness report the state", async () => {
    let ready = false;
    await using server = await open({ ready: () => ({ ready, store: "the disk is full" }) });
    const get = async (path: string) => {
      const response = await fetch(server.url + path);
      return [response.status, await response.json()];
    };
    expect(await get("/healthz")).toEqual([200, { status: "ok" }]);
    expect(await get("/readyz")).toEqual([503, { status: "not ready", store: "the disk is full" }]);
    ready = true;
    expect(await get("/readyz")).toEqual([200, { status: "ready" }]);
  });

  test("the response to an unexpected error has no details", async () => {
    await using server = await open({
      ready: () => {
        throw new Error("the secret inside");
      },
    });
    const response = await fetch(`${server.url}/readyz`, { headers: { "x-request-id": "mine" } });
    expect([response.status, await response.json()]).toEqual([
      500,
      { code: "internal", message: "internal error; the log has the details under request mine" },
    ]);
    expect(server.lines).toMatchObject([{ requestId: "mine", err: { message: "the secret inside" } }]);
  });
});

describe("request ids", () => {
  test.each([
    ["abc-123", true],
    ["x".repeat(128), true],
    ["x".repeat(129), false],
    ["a b", false],
    ["é", false],
  ])("are the client's if they are short printable ASCII: %s", async (id, taken) => {
    await using server = await open();
    const response = await fetch(`${server.url}/healthz`, { headers: { "x-request-id": id } });
    const responseId = response.headers.get("x-request-id");
    expect(responseId === id).toBe(taken);
    expect(responseId).toMatch(/^[\x21-\x7e]+$/);
  });

  const grpcType = { "content-type": "application/grpc" };
  const json = { "content-type": "application/json" };
  test.each<[status: number, name: string, path: string, init: RequestInit]>([
    [200, "health", "/healthz", {}],
    [200, "a page of the documentation", "/docs", {}],
    [302, "a redirect", "/", { redirect: "manual" }],
    [200, "a REST operation", "/auth/login", {}],
    [200, "a response without a body", "/auth/login", { method: "HEAD" }],
    [200, "an RPC over Connect", "/flowgate.v1.AuthService/GetLogin", { method: "POST", headers: json, body: "{}" }],
    [
      200,
      "an RPC over gRPC",
      "/flowgate.v1.AuthService/GetLogin",
      { method: "POST", headers: grpcType, body: "\0\0\0\0\0" },
    ],
    [200, "a stream", "/grpc.health.v1.Health/Watch", { method: "POST", headers: grpcType, body: "\0\0\0\0\0" }],
    [200, "an unknown RPC", "/flowgate.v1.AuthService/None", { method: "POST", headers: grpcType }],
    [404, "an unknown path", "/nowhere", {}],
    [405, "an unknown method", "/healthz", { method: "DELETE" }],
    [400, "a path with a bad escape", "/%zz", {}],
    [
      415,
      "a body of another type",
      "/auth/token",
      { method: "POST", headers: { "content-type": "text/xml" }, body: "<a/>" },
    ],
    [500, "a failure of the implementation", "/settings", {}],
    [204, "a preflight", "/settings", { method: "OPTIONS" }],
    [403, "a foreign origin", "/settings", { method: "POST", headers: { "sec-fetch-site": "cross-site" } }],
  ])("of %i (%s) are in the response: the client's, or a new one", async (status, _name, path, init) => {
    await using server = await open({ docs: true, browserSafety: { checksTokens: false } });
    const idOf = async (headers: Record<string, string>): Promise<string | null> => {
      const leave = new AbortController();
      const response = await fetch(server.url + path, {
        ...init,
        headers: { ...(init.headers as Record<string, string>), ...headers },
        signal: leave.signal,
      });
      leave.abort();
      expect(response.status).toBe(status);
      return response.headers.get("x-request-id");
    };
    const ids = [await idOf({}), await idOf({})];
    expect(ids).toEqual([expect.stringMatching(/^[\w-]+$/), expect.stringMatching(/^[\w-]+$/)]);
    expect(ids[0]).not.toBe(ids[1]);
    expect(await idOf({ "x-request-id": "mine" })).toBe("mine");
  });

  test("requests that violate HTTP have one too", async () => {
    await using server = await open();
    const { port } = new URL(server.url);
    for (const head of ["Host: a\r\nHost: b", "Host: a\r\nExpect: miracles"]) {
      const socket = connect(Number(port), "127.0.0.1");
      socket.end(`GET /healthz HTTP/1.1\r\n${head}\r\nX-Request-Id: mine\r\nConnection: close\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1\.1 4\d\d .*\r\nx-request-id: mine\r\n/is);
    }
  });
});

describe("the log", () => {
  test("contains completed requests at level debug, without their query", async () => {
    const lines: unknown[] = [];
    const log = pino({ level: "debug", base: null }, { write: (line) => void lines.push(JSON.parse(line)) });
    await using server = await open({ log, ready: () => ({ ready: false }) });
    await (await fetch(`${server.url}/healthz?token=s3cret`, { headers: { "x-request-id": "a" } })).text();
    await (await fetch(`${server.url}/readyz`)).text();
    await createClient(AuthService, createGrpcTransport({ baseUrl: server.url })).getLogin({});
    expect(lines).toMatchObject([
      { level: 20, requestId: "a", method: "GET", path: "/healthz", status: 200, protocol: "HTTP/1.1" },
      { level: 50, path: "/readyz", status: 503 },
      { level: 20, path: "/flowgate.v1.AuthService/GetLogin", status: 200, protocol: "HTTP/2.0" },
    ]);
  });

  test("redacts secrets", () => {
    const lines: string[] = [];
    const log = createLog({ level: "info", destination: { write: (line) => void lines.push(line) } });
    const secrets = { authorization: "s3cret", password: "s3cret", token: "s3cret", cookie: "s3cret" };
    log.info({ ...secrets, request: { ...secrets, headers: secrets } }, "a line");
    expect(lines[0]).not.toContain("s3cret");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ level: "info", time: expect.stringMatching(/^\d{4}-.*Z$/) });
    expect(lines[0]).not.toMatch(/"pid"|"hostname"/);
  });
});

test.each(transports)("disposal lets a call in flight finish: %s", async (_name, transport) => {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const server = await open({
    gate: () => {
      arrived.resolve();
      return released.promise;
    },
    listener: { closeGraceMs: 60_000 },
  });
  const httpResponse = createClient(AuthService, transport(server.url)).getLogin({});
  await arrived.promise;
  const disposed = server[Symbol.asyncDispose]();
  released.resolve();
  expect(await httpResponse).toMatchObject({ type: expect.stringContaining("127.0.0.1") });
  await disposed;
});

test("rejects if the port is in use", async () => {
  await using server = await open();
  await expect(open({ port: server.port })).rejects.toMatchObject({ code: "EADDRINUSE" });
});

test("accepts a request target in absolute form", async () => {
  await using service = await open();
  const { hostname, port } = new URL(service.url);
  const ask = async (path: string): Promise<[number | undefined, string]> => {
    const request = http.get({ hostname, port, path });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    return [response.statusCode, await text(response)];
  };
  expect(await ask(`${service.url}/healthz`)).toEqual([200, '{"status":"ok"}']);
  expect(await ask(`${service.url}/auth/login`)).toEqual([200, expect.stringContaining('"type":"GET ')]);
  expect(await ask("HTTP://else.where?x")).toEqual([404, expect.stringContaining("not_found")]);
});

test("every response forbids browsers to guess its type, over both versions of HTTP", async () => {
  await using service = await open();
  for (const path of ["/healthz", "/auth/login", "/unknown", "/flowgate.v1.AuthService/RevokeToken"]) {
    expect((await fetch(`${service.url}${path}`)).headers.get("x-content-type-options")).toBe("nosniff");
    const client = http2.connect(service.url);
    const [headers] = (await once(client.request({ ":path": path }), "response")) as [http2.IncomingHttpHeaders];
    expect(headers["x-content-type-options"]).toBe("nosniff");
    client.destroy();
  }
  using malformed = await openRaw(service.port);
  malformed.write("GET / HTTP/1.1\r\nNo colon\r\n\r\n");
  expect(await malformed.closed()).toMatch(/^HTTP\/1\.1 400 .*\r\nX-Content-Type-Options: nosniff\r\n/s);
});
