import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import http, { type IncomingMessage } from "node:http";
import http2 from "node:http2";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import tls from "node:tls";
import { create, fromBinary } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import * as grpc from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { AuthService, GetLoginResponseSchema } from "../../../gen/flowgate/v1/auth_pb.ts";
import type { TlsFailure } from "../../../src/server/http/tls.ts";
import { silentObserver } from "../../../src/telemetry/observer.ts";
import { createAuthority } from "../../certificates.ts";
import { run } from "../../e2e/program.ts";
import { eventually } from "../../e2e/service.ts";
import { openRaw } from "./raw-connection.ts";
import { authority, workloads, client, open, get, login } from "./open-tls.ts";
import { needs } from "../../needs.ts";

test.each<[string, (baseUrl: string) => Transport]>([
  ["Connect over HTTP/1.1", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1", nodeOptions: client })],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", nodeOptions: client })],
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl, nodeOptions: client })],
  ["gRPC-Web over HTTP/1.1", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1", nodeOptions: client })],
  ["gRPC-Web over HTTP/2", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2", nodeOptions: client })],
])("serves %s over TLS", async (_name, transport) => {
  await using server = await open();
  expect(server.url).toBe(`https://127.0.0.1:${server.port}`);
  expect((await createClient(AuthService, transport(server.url)).getLogin({})).type).toBe("credentials");
});

test("serves REST over TLS, as HTTP/1.1 and as HTTP/2", async () => {
  await using server = await open();
  expect(await get(server.port)).toMatchObject({ status: 200, body: login });
  const session = http2.connect(server.url, client);
  expect(await text(session.request({ ":path": "/auth/login" }))).toBe(login);
  session.close();
});

test("serves grpc-js over TLS, with a client certificate too", async () => {
  await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
  const { cert, key } = workloads.issue();
  const stub = new grpc.Client(
    `127.0.0.1:${server.port}`,
    grpc.credentials.createSsl(Buffer.from(authority.cert), Buffer.from(key), Buffer.from(cert)),
    // It does not accept an IP address as the name in a certificate.
    { "grpc.ssl_target_name_override": "localhost" },
  );
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  stub.makeUnaryRequest(
    "/flowgate.v1.AuthService/GetLogin",
    (bytes: Buffer) => bytes,
    (bytes) => fromBinary(GetLoginResponseSchema, bytes),
    Buffer.alloc(0),
    (error, value) => (error === null ? resolve((value ?? create(GetLoginResponseSchema)).type) : reject(error)),
  );
  expect(await promise).toBe("credentials");
  stub.close();
});

/** The negotiated protocol; undefined if the server rejects the client. */
async function negotiate(port: number, options: tls.ConnectionOptions) {
  const socket = tls.connect({ host: "127.0.0.1", port, ...client, ...options });
  try {
    await once(socket, "secureConnect");
    return { alpn: socket.alpnProtocol, version: socket.getProtocol() };
  } catch (error) {
    return { code: (error as NodeJS.ErrnoException).code };
  } finally {
    socket.destroy();
  }
}

test.each([
  [["h2", "http/1.1"], { alpn: "h2" }],
  [["http/1.1", "h2"], { alpn: "h2" }],
  [["http/1.1"], { alpn: "http/1.1" }],
  [undefined, { alpn: false }],
  [["spdy/3"], { code: "ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL" }],
])("negotiates a protocol with a client that offers %j", async (ALPNProtocols, expected) => {
  await using server = await open();
  expect(await negotiate(server.port, ALPNProtocols === undefined ? {} : { ALPNProtocols })).toMatchObject(expected);
});

test("rejects TLS versions older than the minimum", async () => {
  const old = { maxVersion: "TLSv1.2" } as const;
  await using lenient = await open();
  expect(await negotiate(lenient.port, old)).toMatchObject({ version: "TLSv1.2" });
  await using strict = await open({ minVersion: "TLSv1.3" });
  expect(await negotiate(strict.port, old)).toMatchObject({ code: "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION" });
  expect(await negotiate(strict.port, {})).toMatchObject({ version: "TLSv1.3" });
});

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

describe("disconnects", () => {
  test.each([
    ["plain HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["plain HTTP/2", preface],
    ["noise", "\0".repeat(100)],
  ])("a client that speaks %s", async (_name, bytes) => {
    await using server = await open();
    using raw = await openRaw(server.port);
    raw.write(bytes);
    expect(await raw.closed()).not.toContain("HTTP/1.1 200");
    expect((await get(server.port)).status).toBe(200);
  });

  const hasty = { options: { listener: { firstByteTimeoutMs: 50 } } };

  test("a client that never begins a handshake, or never ends it", async () => {
    await using server = await open(hasty);
    using silent = await openRaw(server.port);
    expect(await silent.closed()).toBe("");
    using slow = await openRaw(server.port);
    slow.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]));
    expect(await slow.closed()).toBe("");
  });

  test.each(["h2", "http/1.1"])("a client that has negotiated %s and sends nothing", async (protocol) => {
    // The handshake has to end within the limit too, however busy the machine is.
    await using server = await open({ options: { listener: { firstByteTimeoutMs: 2_000 } } });
    const socket = tls.connect({ host: "127.0.0.1", port: server.port, ...client, ALPNProtocols: [protocol] });
    socket.on("error", () => {}).resume();
    await once(socket, "close");
    expect(socket.alpnProtocol).toBe(protocol);
  });

  test.each<[when: string, leave: (port: number) => Promise<unknown>]>([
    ["before its handshake, like a TCP probe", (port) => leaveRaw(port, "")],
    ["during its handshake", (port) => leaveRaw(port, Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]))],
    ["after it", (port) => leaveSecure(port, "")],
    ["with its first request", (port) => leaveSecure(port, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")],
  ])("a client that disconnects %s, without reaching a limit", async (_when, leave) => {
    const reached: string[] = [];
    await using server = await open({
      options: { observer: { ...silentObserver, limitReached: (limit) => void reached.push(limit) } },
    });
    await leave(server.port);
    await eventually(async () => expect(server.connections()).toBe(0));
    expect(reached).toEqual([]);
  });

  async function leaveRaw(port: number, last: string | Buffer): Promise<void> {
    using raw = await openRaw(port);
    raw.socket.end(last);
    await raw.closed();
  }

  async function leaveSecure(port: number, last: string): Promise<void> {
    const socket = tls.connect({ host: "127.0.0.1", port, ...client });
    await once(socket, "secureConnect");
    socket.write(last);
    socket.destroy();
  }

  test.each([
    ["HTTP/2 having agreed on HTTP/1.1", ["http/1.1"], preface],
    ["HTTP/1.1 having agreed on HTTP/2", ["h2"], "GET / HTTP/1.1\r\nHost: a\r\n\r\n"],
  ])("a client that speaks %s", async (_name, ALPNProtocols, bytes) => {
    await using server = await open();
    const socket = tls.connect({
      host: "127.0.0.1",
      port: server.port,
      ...client,
      ...(ALPNProtocols && { ALPNProtocols }),
    });
    socket.on("error", () => {});
    socket.write(bytes);
    let received = "";
    socket.on("data", (chunk: Buffer) => (received += chunk.toString()));
    await once(socket, "close");
    expect(received).toBe("");
  });
});

describe("a client without ALPN is served", () => {
  async function connect(port: number): Promise<tls.TLSSocket> {
    const socket = tls.connect({ host: "127.0.0.1", port, ...client });
    await once(socket, "secureConnect");
    expect(socket.alpnProtocol).toBe(false);
    return socket;
  }

  test("over HTTP/2, by its preface", async () => {
    await using server = await open();
    const socket = await connect(server.port);
    const session = http2.connect(server.url, { createConnection: () => socket });
    const stream = session.request({ ":path": "/auth/login" });
    const [headers] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
    expect([headers[":status"], await text(stream)]).toEqual([200, '{"type":"credentials"}']);
    session.close();
    await once(session, "close");
  });

  test("over HTTP/1.1", async () => {
    await using server = await open();
    const socket = await connect(server.port);
    const request = http.get({ path: "/auth/login", createConnection: () => socket });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    expect([response.statusCode, await text(response)]).toEqual([200, '{"type":"credentials"}']);
  });

  test("over gRPC's health checks, as Envoy makes them", async () => {
    await using server = await open();
    const socket = await connect(server.port);
    const session = http2.connect(server.url, { createConnection: () => socket });
    const stream = session.request({
      ":method": "POST",
      ":path": "/grpc.health.v1.Health/Check",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.end(Buffer.alloc(5)).resume();
    const [trailers] = (await once(stream, "trailers")) as [http2.IncomingHttpHeaders];
    expect(trailers["grpc-status"]).toBe("0");
    session.close();
    await once(session, "close");
  });
});

describe("a failed handshake is counted by its reason", () => {
  /** A client that does not trust the authority and sends an alert: Node's own would just disconnect. */
  const curl = "/usr/bin/curl";
  const { cert: stranger } = createAuthority("Stranger");

  test.each<[TlsFailure, (port: number) => Promise<unknown>]>([
    ["not_tls", async (port) => (await openRaw(port)).write("GET / HTTP/1.1\r\n\r\n")],
    [
      "parameters",
      (port) => get(port, { ...client, maxVersion: "TLSv1.1", minVersion: "TLSv1", ciphers: "ALL:@SECLEVEL=0" }),
    ],
    ["client_certificate", (port) => get(port)],
    ["client_certificate", (port) => get(port, { ...client, ...createAuthority("Workloads").issue() })],
    ["closed", async (port) => (await openRaw(port))[Symbol.dispose]()],
  ])("%s", async (reason, come) => {
    await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
    expect((await get(server.port, { ...client, ...workloads.issue() })).status).toBe(200);
    expect(server.failures).toEqual([]);
    await come(server.port).catch(() => {});
    await eventually(async () => expect(server.failures).toEqual([reason]));
  });

  test("refused", needs("curl", existsSync(curl)), async () => {
    await using server = await open();
    await writeFile(join(server.directory, "stranger.crt"), stranger);
    const get = (ca: string) =>
      run(curl, "--silent", "--cacert", join(server.directory, ca), `${server.url}/auth/login`);
    expect((await get("stranger.crt")).stdout).toBe("");
    await eventually(async () => expect(server.failures).toEqual(["refused"]));
  });
});

test("closes idle connections, and lets calls in flight finish", async () => {
  const arrived = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const getLogin = async () => {
    arrived.resolve();
    await released.promise;
    return { type: "late" };
  };
  await using server = await open({ options: { routes: (router) => void router.service(AuthService, { getLogin }) } });
  const idle = tls.connect({ host: "127.0.0.1", port: server.port, ...client });
  await once(idle, "secureConnect");
  const session = http2.connect(server.url, client);
  const httpResponse = text(session.request({ ":path": "/auth/login" }));
  await arrived.promise;
  const closed = server[Symbol.asyncDispose]();
  idle.on("error", () => {}).resume();
  await once(idle, "close");
  released.resolve();
  expect(await httpResponse).toBe('{"type":"late"}');
  await closed;
});
