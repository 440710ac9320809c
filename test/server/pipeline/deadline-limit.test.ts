import { Code, type ConnectError, type ConnectRouter, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { json, send } from "../../e2e/rest.ts";

/** Its IssueToken runs until it is released, or its deadline passes. */
async function open(limits: { deadlineMs?: number }) {
  const finish = Promise.withResolvers<void>();
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "silent" }),
    routes: (router: ConnectRouter) =>
      void router.service(AuthService, {
        getLogin: () => ({ type: "none" }),
        async issueToken(_request, { signal }) {
          const over = Promise.withResolvers<never>();
          signal.addEventListener("abort", () => over.reject(signal.reason));
          await Promise.race([finish.promise, over.promise]);
          return { accessToken: "a" };
        },
      }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024, ...limits },
  });
  return Object.assign(server, { finish: () => finish.resolve() });
}

const hourMs = 3_600_000;
const transports: [string, (baseUrl: string) => Transport][] = [
  ["Connect", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
];

describe("a deadline of an hour", () => {
  const long = { "x-server-timeout": "3600", ...json };

  test("is reduced to limits.deadlineMs: REST", async () => {
    await using server = await open({ deadlineMs: 50 });
    expect((await send(server.url, "POST", "/auth/token", { headers: long, body: "{}" })).status).toBe(504);
  });

  test.each(transports)("is reduced to limits.deadlineMs: %s", async (_protocol, transport) => {
    await using server = await open({ deadlineMs: 50 });
    expect(await callFor(hourMs, transport(server.url))).toBe(Code.DeadlineExceeded);
  });

  test("stays an hour without the limit", async () => {
    await using server = await open({});
    const [[, connect], [, grpc]] = transports as [(typeof transports)[0], (typeof transports)[0]];
    const calls = [
      send(server.url, "POST", "/auth/token", { headers: long, body: "{}" }),
      callFor(hourMs, connect(server.url)),
      callFor(hourMs, grpc(server.url)),
    ];
    // Calls that began later have already ended.
    expect(await callFor(100, grpc(server.url))).toBe(Code.DeadlineExceeded);
    server.finish();
    expect(await Promise.all(calls)).toMatchObject([{ status: 200 }, { accessToken: "a" }, { accessToken: "a" }]);
  });
});

/** Sets only the header, since the client would enforce the deadline itself. */
async function callFor(timeoutMs: number, transport: Transport): Promise<unknown> {
  const { issueToken } = createClient(AuthService, transport);
  const headers = { "connect-timeout-ms": `${timeoutMs}`, "grpc-timeout": `${timeoutMs}m` };
  return issueToken({}, { headers }).catch((error: ConnectError) => error.code);
}

describe("a deadline that has passed when the call arrives", () => {
  const over = { "connect-timeout-ms": "0", "grpc-timeout": "0m", "x-server-timeout": "0" };

  test("prevents even a short call:  REST", async () => {
    await using server = await open({});
    const { "grpc-timeout": _grpc, "connect-timeout-ms": _connect, ...rest } = over;
    expect((await send(server.url, "GET", "/auth/login", { headers: rest })).status).toBe(504);
  });

  test.each(transports)("prevents even a short call:  %s", async (_protocol, transport) => {
    await using server = await open({});
    const { getLogin } = createClient(AuthService, transport(server.url));
    await expect(getLogin({}, { headers: over })).rejects.toMatchObject({ code: Code.DeadlineExceeded });
  });
});
