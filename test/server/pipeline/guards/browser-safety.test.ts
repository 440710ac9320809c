import http2 from "node:http2";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createClient,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import * as grpc from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../../gen/flowgate/v1/flows_pb.ts";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { openServer } from "../../../../src/server/open-server.ts";
import type { ServerOptions } from "../../../../src/server/server-options.ts";
import { createLog } from "../../../../src/telemetry/log.ts";
import { send } from "../../../e2e/rest.ts";
import { openRaw } from "../../http/raw-connection.ts";

const safe = { browserSafety: { hosts: ["flows.example"], checksTokens: false } } as const;

/** Records the calls that reached an implementation. */
async function open(options: Partial<ServerOptions> = safe) {
  const calls: string[] = [];
  const routes = (router: ConnectRouter): void => {
    router.service(AuthService, {
      getLogin: () => {
        calls.push("getLogin");
        return { type: "none" };
      },
      issueToken: () => {
        calls.push("issueToken");
        return { accessToken: "secret" };
      },
      revokeToken: () => {
        calls.push("revokeToken");
        return {};
      },
    });
  };
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "silent" }),
    routes,
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    docs: true,
    limits: { bodyBytes: 1024 * 1024 },
    ...options,
  });
  return Object.assign(server, { calls });
}

const misdirected = (name: string) => ({
  code: "misdirected_request",
  message: `${name} is not a name of this service: without a token, the Host must be one of its addresses, localhost, or a name in its option hosts; if it should be a name of this service, add it there`,
});
const foreign = (name: string) => ({
  code: "foreign_origin",
  message: `pages of ${name} may not call this service without a token; to allow them, add their origin to its option cors.origins`,
});

describe("the Host", () => {
  test.each([
    "127.0.0.1",
    "127.0.0.1:8080",
    "[::1]:8080",
    "[::1]",
    "localhost",
    "LOCALHOST:1",
    "localhost.",
    "10.1.2.3:8080",
    "flows.example",
    "Flows.Example.:443",
  ])("%s is accepted", async (host) => {
    await using server = await open();
    expect((await send(server.url, "GET", "/auth/login", { headers: { host } })).status).toBe(200);
  });

  test.each([
    ["evil.example", "evil.example"],
    ["evil.example:8080", "evil.example:8080"],
    ["evil.example.", "evil.example."],
    ["localhost.evil.example", "localhost.evil.example"],
    ["127.0.0.1.evil.example", "127.0.0.1.evil.example"],
    ["notflows.example", "notflows.example"],
    ["a.flows.example", "a.flows.example"],
    ["127.1", "127.1"],
    ["2130706433", "2130706433"],
    ["localhost@evil.example", "the Host"],
    ["localhost, evil.example", "the Host"],
    ["[::1].evil.example", "[::1].evil.example"],
    ["[localhost]", "[localhost]"],
    ["localhost..", "localhost.."],
    ["localhost:80:80", "localhost:80:80"],
  ])("%j is rejected", async (host, quoted) => {
    await using server = await open();
    const reply = await send(server.url, "GET", "/auth/login", { headers: { host } });
    expect([reply.status, reply.json()]).toEqual([421, misdirected(quoted)]);
    expect(server.calls).toEqual([]);
  });

  test("is not checked without browser safety: the same request is served", async () => {
    await using server = await open({});
    const reply = await send(server.url, "GET", "/auth/login", { headers: { host: "evil.example" } });
    expect([reply.status, reply.body]).toEqual([200, '{"type":"none"}']);
  });

  test.each([
    "GET http://evil.example/auth/login HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET http://localhost/auth/login HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "GET HTTP://localhost@evil.example/auth/login HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /auth/login HTTP/1.1\r\nHost: \r\n\r\n",
    "GET /auth/login HTTP/1.0\r\n\r\n",
  ])("is checked in every place of a request: %j", async (request) => {
    await using server = await open();
    using raw = await openRaw(server.port);
    raw.write(request);
    expect(await raw.until(/}$/)).toMatch(/^HTTP\/1.1 421 .*"code":"misdirected_request"/s);
    expect(server.calls).toEqual([]);
  });

  test("in a target in absolute form is accepted", async () => {
    await using server = await open();
    using raw = await openRaw(server.port);
    raw.write("GET http://localhost/auth/login HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await raw.until(/}$/)).toMatch(/^HTTP\/1.1 200 /);
  });

  test.each([
    [{ ":authority": "evil.example" }, 421],
    [{ ":authority": "localhost", host: "evil.example" }, 421],
    [{ ":authority": "evil.example", host: "localhost" }, 421],
    [{ ":authority": "localhost:80" }, 200],
  ])("over HTTP/2 is the authority: %j", async (headers, status) => {
    await using server = await open();
    const session = http2.connect(server.url);
    const stream = session.request({ ":path": "/auth/login", ...headers });
    const [head] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    expect([head[":status"], (await text(stream)).includes("misdirected_request")]).toEqual([status, status === 421]);
    session.close();
  });

  test("forwarded by a trusted proxy is checked too", async () => {
    await using server = await open({ ...safe, trustedProxies: ["127.0.0.1"] });
    const ask = async (forwarded: string) =>
      (await send(server.url, "GET", "/auth/login", { headers: { "x-forwarded-host": forwarded } })).status;
    expect([await ask("flows.example"), await ask("evil.example")]).toEqual([200, 421]);
  });

  test("is not checked for health probes", async () => {
    await using server = await open();
    const headers = { host: "cluster_name" };
    expect((await send(server.url, "GET", "/healthz", { headers })).status).toBe(200);
    expect((await send(server.url, "GET", "/readyz", { headers })).status).toBe(200);
    expect((await send(server.url, "GET", "/docs", { headers })).status).toBe(421);
    expect((await send(server.url, "GET", "/nowhere", { headers })).status).toBe(421);
    const path = "/grpc.health.v1.Health/Check";
    const body = { headers: { ...headers, "content-type": "application/json" }, body: "{}" };
    expect((await send(server.url, "POST", path, body)).json()).toEqual({ status: "SERVING" });
  });
});

type Headers = Readonly<Record<string, string>>;

const origin = (origin: string): Headers => ({ host: "flows.example", origin });
const site = (site: string, more: Headers = {}): Headers => ({
  host: "localhost",
  "sec-fetch-site": site,
  "sec-fetch-mode": "no-cors",
  "sec-fetch-dest": "image",
  ...more,
});
const visit = { "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };

const forgeries: [string, Headers, string][] = [
  ["of another host", origin("https://evil.example"), "https://evil.example"],
  [
    "of a host that begins like a name of the service",
    origin("http://flows.example.evil.example"),
    "http://flows.example.evil.example",
  ],
  ["of another port", origin("http://flows.example:81"), "http://flows.example:81"],
  ["of a subdomain of a name of the service", origin("http://a.flows.example"), "http://a.flows.example"],
  ["of no scheme", origin("flows.example"), "flows.example"],
  ["of another scheme", origin("ftp://flows.example"), "ftp://flows.example"],
  ["in a sandbox", origin("null"), "null"],
  ["with an invalid origin", origin("http://flows.example/\u0022"), "another origin"],
  ["that sends no origin", site("cross-site"), "another origin"],
  ["of another port that sends no origin", site("same-site"), "another origin"],
  ["in a frame", site("cross-site", { ...visit, "sec-fetch-dest": "iframe" }), "another origin"],
  [
    "of the same name, but another scheme",
    { ...origin("http://flows.example"), "sec-fetch-site": "cross-site" },
    "http://flows.example",
  ],
];

const ownRequests: [string, Headers][] = [
  ["of the service's own page", origin("http://flows.example")],
  ["of the service's own page, behind a proxy with TLS", origin("https://flows.example")],
  ["of the service's own page, whose port is named", { host: "flows.example:443", origin: "https://flows.example" }],
  ["of the service's own page, on IPv6", { host: "[::1]:8080", origin: "http://[::1]:8080" }],
  ["of a read by the service's own page", site("same-origin")],
  ["of a URL typed by the user", site("none", visit)],
  ["that follows a link", site("cross-site", visit)],
  ["of no browser", { host: "localhost" }],
];

describe("a request", () => {
  test.each(forgeries)("%s is rejected for every route", async (_what, headers, quoted) => {
    await using server = await open();
    for (const [method, path] of [
      ["GET", "/auth/login"],
      ["POST", "/auth/token"],
      ["OPTIONS", "/auth/token"],
      ["GET", "/docs"],
      ["GET", "/healthz"],
      ["GET", "/nowhere"],
    ] as const) {
      const reply = await send(server.url, method, path, { headers: { ...headers, "content-type": "text/plain" } });
      expect([method, path, reply.status, reply.json()]).toEqual([method, path, 403, foreign(quoted)]);
      expect(Object.keys(reply.headers).filter((name) => name.startsWith("access-control-"))).toEqual([]);
    }
    expect(server.calls).toEqual([]);
  });

  test.each(forgeries)("%s is served without browser safety", async (_what, headers) => {
    await using server = await open({});
    const post = { headers: { ...headers, "content-type": "application/json" }, body: '{"token":"x"}' };
    expect((await send(server.url, "POST", "/auth/revoke", post)).status).toBe(200);
    expect(server.calls).toEqual(["revokeToken"]);
  });

  test.each(ownRequests)("%s is served", async (_what, headers) => {
    await using server = await open();
    expect((await send(server.url, "GET", "/auth/login", { headers })).status).toBe(200);
    expect((await send(server.url, "GET", "/docs", { headers })).status).toBe(200);
  });

  test("that submits a form is rejected, unlike one that follows a link", async () => {
    await using server = await open();
    const headers = { ...site("cross-site", visit), "content-type": "application/x-www-form-urlencoded" };
    expect((await send(server.url, "POST", "/auth/revoke", { headers, body: "token=x" })).status).toBe(403);
    expect(server.calls).toEqual([]);
  });

  test("with an Authorization passes only if the gate checks it", async () => {
    const headers = { host: "evil.example", origin: "http://evil.example", authorization: "Bearer x" };
    for (const [checksTokens, status] of [
      [true, 200],
      [false, 421],
    ] as const) {
      await using server = await open({ browserSafety: { hosts: [], checksTokens } });
      expect((await send(server.url, "GET", "/auth/login", { headers })).status).toBe(status);
      const { authorization: _none, ...anonymous } = headers;
      expect((await send(server.url, "GET", "/auth/login", { headers: anonymous })).status).toBe(421);
    }
  });

  test("with a client certificate is checked by its origin alone", async () => {
    await using server = await open({ browserSafety: { checksTokens: true } });
    const ask = async (headers: Headers) => (await send(server.url, "GET", "/auth/login", { headers })).status;
    expect(await ask({ host: "mesh.internal" })).toBe(200);
    expect(await ask({ host: "mesh.internal", origin: "https://mesh.internal" })).toBe(200);
    expect(await ask({ host: "mesh.internal", origin: "https://evil.example" })).toBe(403);
  });

  test("that is rejected is not read, and its connection closes if the body is long", async () => {
    await using server = await open();
    const head = "POST /auth/revoke HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n";
    using long = await openRaw(server.port);
    long.write(`${head}Content-Length: 20000000\r\n\r\n{`);
    expect(await long.closed()).toMatch(/^HTTP\/1.1 421 .*connection: close/is);
    using short = await openRaw(server.port);
    short.write(`${head}Content-Length: 2\r\n\r\n{}GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect(await short.until(/"ok"/)).toMatch(/^HTTP\/1.1 421 .*HTTP\/1.1 200 /s);
  });
});

const transports: [string, (baseUrl: string, headers: Headers) => Transport][] = [
  [
    "Connect",
    (baseUrl, headers) => createConnectTransport({ baseUrl, httpVersion: "1.1", interceptors: [setting(headers)] }),
  ],
  [
    "Connect over HTTP/2",
    (baseUrl, headers) => createConnectTransport({ baseUrl, httpVersion: "2", interceptors: [setting(headers)] }),
  ],
  ["gRPC", (baseUrl, headers) => createGrpcTransport({ baseUrl, interceptors: [setting(headers)] })],
  [
    "gRPC-Web",
    (baseUrl, headers) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1", interceptors: [setting(headers)] }),
  ],
];

const setting =
  (headers: Headers): Interceptor =>
  (next) =>
  (request) => {
    for (const [name, value] of Object.entries(headers)) {
      request.header.set(name, value);
    }
    return next(request);
  };

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return ConnectError.from(
    await call.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    ),
  );
}

describe.each(transports)("over %s", (_name, transport) => {
  test("a rejection is an error of the protocol", async () => {
    await using server = await open();
    const client = createClient(AuthService, transport(server.url, { origin: "https://evil.example" }));
    const failure = await failureOf(client.revokeToken({ token: "x" }));
    expect([failure.code, failure.rawMessage]).toEqual([
      Code.PermissionDenied,
      foreign("https://evil.example").message,
    ]);
    expect(failure.findDetails(ErrorInfoSchema)).toMatchObject([{ reason: "foreign_origin", domain: "flowgate" }]);
    expect(server.calls).toEqual([]);
  });

  test("a stream is rejected in the same way", async () => {
    await using server = await open();
    const watch = createClient(Health, transport(server.url, { origin: "https://evil.example" })).watch({});
    const failure = await failureOf(watch[Symbol.asyncIterator]().next());
    expect([failure.code, failure.rawMessage]).toEqual([
      Code.PermissionDenied,
      foreign("https://evil.example").message,
    ]);
  });

  test("a listed origin may call", async () => {
    await using server = await open({ ...safe, cors: { origins: ["https://app.example"], maxAgeSeconds: 5 } });
    await createClient(AuthService, transport(server.url, { origin: "https://app.example" })).revokeToken({});
    expect(server.calls).toEqual(["revokeToken"]);
  });
});

test("@grpc/grpc-js gets the error of an unknown authority", async () => {
  await using server = await open();
  const client = new grpc.Client(`127.0.0.1:${server.port}`, grpc.credentials.createInsecure(), {
    "grpc.default_authority": "evil.example",
  });
  const failure = await new Promise<grpc.ServiceError | null>((resolve) => {
    client.makeUnaryRequest(
      "/flowgate.v1.AuthService/GetLogin",
      () => Buffer.alloc(0),
      (bytes) => bytes,
      Buffer.alloc(0),
      resolve,
    );
  });
  expect([failure?.code, failure?.details]).toEqual([
    grpc.status.PERMISSION_DENIED,
    misdirected("evil.example").message,
  ]);
  client.close();
});

describe("CORS", () => {
  const app = "https://app.example";
  const cors = { origins: [app, "http://localhost:5173"], maxAgeSeconds: 5 };
  const corsOf = (headers: object) =>
    Object.fromEntries(
      Object.entries(headers).filter(([name]) => name.startsWith("access-control-") || name === "vary"),
    ) as Record<string, string>;
  const preflight = { "access-control-request-method": "POST", "access-control-request-headers": "authorization" };

  const paths = [
    ["GET", "/auth/login", 200],
    ["POST", "/auth/revoke", 200],
    ["GET", "/flowgate.v1.AuthService/GetLogin?connect=v1&encoding=json&message=%7B%7D", 200],
    ["PUT", "/flowgate.v1.AuthService/GetLogin", 405],
    ["GET", "/openapi.json", 200],
    ["GET", "/docs/swagger-ui.css", 200],
    ["GET", "/healthz", 200],
    ["GET", "/nowhere", 404],
  ] as const;

  test.each(paths)("is off by default: %s %s", async (method, path, status) => {
    await using server = await open({});
    const reply = await send(server.url, method, path, { headers: { origin: app } });
    expect([reply.status, corsOf(reply.headers)]).toEqual([
      status,
      expect.not.objectContaining({ vary: expect.stringContaining("Origin") }),
    ]);
    expect(Object.keys(corsOf(reply.headers)).filter((name) => name !== "vary")).toEqual([]);
    const asked = await send(server.url, "OPTIONS", path, { headers: { origin: app, ...preflight } });
    expect(Object.keys(corsOf(asked.headers)).filter((name) => name !== "vary")).toEqual([]);
  });

  test.each(paths)(
    "lets listed origins read %s %s, errors included, and answers preflights once",
    async (method, path, status) => {
      await using server = await open({ ...safe, cors });
      const reply = await send(server.url, method, path, { headers: { origin: app } });
      expect(reply.status).toBe(status);
      expect(reply.headers).toMatchObject({
        "access-control-allow-origin": app,
        "access-control-expose-headers": expect.stringMatching(
          /grpc-status.*grpc-message.*grpc-status-details-bin.*ETag.*Retry-After/i,
        ),
        vary: expect.stringMatching(/^Origin/),
      });
      expect(reply.headers).not.toHaveProperty("access-control-allow-credentials");

      const asked = await send(server.url, "OPTIONS", path, { headers: { origin: app, ...preflight } });
      expect([asked.status, asked.body, corsOf(asked.headers)]).toEqual([
        204,
        "",
        {
          "access-control-allow-origin": app,
          "access-control-allow-methods": "POST, GET, HEAD, PUT, PATCH, DELETE",
          "access-control-allow-headers": expect.any(String),
          "access-control-max-age": "5",
          vary: "Origin",
        },
      ]);
      const allowed = asked.headers["access-control-allow-headers"]?.toLowerCase().split(", ");
      expect(allowed).toEqual(
        expect.arrayContaining([
          "content-type",
          "authorization",
          "connect-protocol-version",
          "connect-timeout-ms",
          "grpc-timeout",
          "x-grpc-web",
          "x-user-agent",
          "if-match",
          "if-none-match",
        ]),
      );
    },
  );

  test("lists the headers of the contract", async () => {
    await using server = await open({ cors, routes: (router) => void router.service(FlowsService, {}) });
    const asked = await send(server.url, "OPTIONS", "/flows", { headers: { origin: app, ...preflight } });
    expect(asked.headers["access-control-allow-headers"]).toMatch(/Service-API-Version.*Service-Deployment-Type/i);
  });

  test("allows neither other origins nor access to a private network", async () => {
    await using server = await open({ cors });
    for (const origin of ["https://evil.example", "https://app.example:444", "http://app.example", "null"]) {
      const reply = await send(server.url, "GET", "/auth/login", { headers: { origin } });
      expect([reply.status, corsOf(reply.headers)]).toEqual([200, { vary: expect.stringMatching(/^Origin/) }]);
    }
    const asked = await send(server.url, "OPTIONS", "/auth/login", {
      headers: { origin: app, ...preflight, "access-control-request-private-network": "true" },
    });
    expect(asked.headers).not.toHaveProperty("access-control-allow-private-network");
  });

  test('"*" allows every origin, and responses do not vary by it', async () => {
    await using server = await open({ ...safe, cors: { origins: ["*"], maxAgeSeconds: 0 } });
    const reply = await send(server.url, "GET", "/auth/login", { headers: { origin: "https://evil.example" } });
    expect([reply.status, corsOf(reply.headers)]).toMatchObject([200, { "access-control-allow-origin": "*" }]);
    expect(reply.headers.vary ?? "").not.toContain("Origin");
  });

  test("does not affect the check of the Host", async () => {
    await using server = await open({ ...safe, cors });
    const headers = { host: "evil.example", origin: app };
    expect((await send(server.url, "GET", "/auth/login", { headers })).status).toBe(421);
  });
});
