import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import http, { type IncomingMessage } from "node:http";
import http2 from "node:http2";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import tls from "node:tls";
import { create, fromBinary } from "@bufbuild/protobuf";
import { type ConnectRouter, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import * as grpc from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { AuthService, GetLoginResponseSchema } from "../../../gen/flowgate/v1/auth_pb.ts";
import { openServer, type ServerOptions } from "../../../src/server/open-server.ts";
import { type CertificateOptions, openCertificates } from "../../../src/server/http/certificates.ts";
import type { TlsFailure, TlsOptions } from "../../../src/server/http/tls.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { silentObserver } from "../../../src/telemetry/observer.ts";
import { createAuthority, daysFromNow, type Issued, issueServer } from "../../certificates.ts";
import { isMissing, run } from "../../e2e/program.ts";
import { eventually } from "../../e2e/service.ts";
import { openRaw } from "./raw-connection.ts";

const authority = createAuthority();
const workloads = createAuthority("Workloads");
const client = { ca: authority.cert };

type Opening = {
  readonly server?: Issued;
  readonly clientCa?: string;
  readonly clientCertificate?: TlsOptions["clientCertificate"];
  readonly minVersion?: CertificateOptions["minVersion"];
  readonly options?: Partial<ServerOptions>;
  readonly nowMs?: () => number;
};

/** A server with its certificates in temporary files, which it polls frequently. */
async function open({
  server: issued = issueServer(authority),
  clientCa,
  clientCertificate = "none",
  minVersion = "TLSv1.2",
  options,
  nowMs = Date.now,
}: Opening = {}) {
  const lines: { msg: string; reason?: string }[] = [];
  const log = createLog({
    level: "debug",
    destination: { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number]) },
  });
  const directory = await mkdtemp(join(tmpdir(), "flowgate-tls-"));
  const files = { certFile: join(directory, "tls.crt"), keyFile: join(directory, "tls.key") };
  const clientCaFile = clientCa === undefined ? undefined : join(directory, "ca.crt");
  await writeFile(files.certFile, issued.cert);
  await writeFile(files.keyFile, issued.key);
  if (clientCa !== undefined && clientCaFile !== undefined) {
    await writeFile(clientCaFile, clientCa);
  }
  const certificates = await openCertificates({ ...files, clientCaFile, minVersion }, log, {
    pollIntervalMs: 10,
    nowMs,
  });
  const failures: TlsFailure[] = [];
  const server = await openServer({
    observer: { ...silentObserver, tlsHandshakeFailed: (reason) => void failures.push(reason as TlsFailure) },
    host: "127.0.0.1",
    port: 0,
    log,
    routes: (router: ConnectRouter) => void router.service(AuthService, { getLogin: () => ({ type: "credentials" }) }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    tls: { certificates, clientCertificate },
    ...options,
  });
  return {
    ...server,
    ...files,
    failures,
    certificates,
    directory,
    clientCaFile: clientCaFile ?? "",
    /** Waits until the log matches, and returns it. */
    logged: (pattern: RegExp) =>
      eventually(async () => {
        const log = lines.map(({ msg, reason = "" }) => `${msg} ${reason}`).join("\n");
        expect(log).toMatch(pattern);
        return log;
      }),
    async [Symbol.asyncDispose]() {
      certificates[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

type Answer = {
  readonly status: number;
  readonly body: string;
  /** Whether the response closes the connection. */
  readonly closes: boolean;
  /** The serial number of the server's certificate. */
  readonly serial: string;
  /** Whether the connection resumed an earlier TLS session. */
  readonly resumed: boolean;
};

/** One request over HTTP/1.1, on a new connection. */
async function get(port: number, options: https.RequestOptions = client): Promise<Answer> {
  const request = https.get({ host: "127.0.0.1", port, path: "/auth/login", agent: false, ...options });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const socket = request.socket as tls.TLSSocket;
  return {
    status: response.statusCode ?? 0,
    closes: response.headers.connection === "close",
    serial: socket.getPeerCertificate().serialNumber,
    resumed: socket.isSessionReused(),
    body: await text(response),
  };
}

const login = '{"type":"credentials"}';

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

  test.skipIf(isMissing("clients that reject a certificate", existsSync(curl)))("refused", async () => {
    await using server = await open();
    await writeFile(join(server.directory, "stranger.crt"), stranger);
    const get = (ca: string) =>
      run(curl, "--silent", "--cacert", join(server.directory, ca), `${server.url}/auth/login`);
    expect((await get("stranger.crt")).stdout).toBe("");
    await eventually(async () => expect(server.failures).toEqual(["refused"]));
  });
});

describe("client certificates", () => {
  const certificates: Record<string, Issued | undefined> = {
    good: workloads.issue(),
    none: undefined,
    "of another authority": createAuthority("Workloads").issue(),
    expired: workloads.issue({ to: daysFromNow(-0.5) }),
    "not yet valid": workloads.issue({ from: daysFromNow(0.5) }),
  };

  /** Which of them are accepted over both versions. */
  async function admitted(clientCertificate: TlsOptions["clientCertificate"]): Promise<string[]> {
    await using server = await open({
      ...(clientCertificate !== "none" && { clientCa: workloads.cert }),
      clientCertificate,
    });
    const names: string[] = [];
    for (const [name, issued] of Object.entries(certificates)) {
      const options = { ...client, ...issued };
      const one = await get(server.port, options).then(
        ({ status }) => status === 200,
        () => false,
      );
      const two = await createClient(AuthService, createGrpcTransport({ baseUrl: server.url, nodeOptions: options }))
        .getLogin({}, { timeoutMs: 5_000 })
        .then(
          () => true,
          () => false,
        );
      expect(two).toBe(one);
      if (one) {
        names.push(name);
      }
    }
    return names;
  }

  test("must be valid if they are required", async () => {
    expect(await admitted("require")).toEqual(["good"]);
  });

  test("may be absent but not invalid if they are requested", async () => {
    expect(await admitted("request")).toEqual(["good", "none"]);
  });

  test("are not requested by default, so that the clients rejected above are accepted", async () => {
    expect(await admitted("none")).toEqual(Object.keys(certificates));
  });
});

test("a connection accepts no more calls once its client certificate has expired", async () => {
  await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
  const brief = { ...client, ...workloads.issue({ to: new Date(Date.now() + 3_000) }) };
  const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
  expect(await get(server.port, { ...brief, agent })).toMatchObject({ body: login, closes: false });
  const ending = http2.connect(server.url, brief);
  expect(await text(ending.request({ ":path": "/auth/login" }))).toBe(login);
  const lasting = http2.connect(server.url, { ...client, ...workloads.issue() });
  expect(await text(lasting.request({ ":path": "/auth/login" }))).toBe(login);

  await once(ending, "close");
  expect(await text(lasting.request({ ":path": "/auth/login" }))).toBe(login);
  // HTTP/1.1 can announce that only in a response.
  expect(await get(server.port, { ...brief, agent })).toMatchObject({ body: login, closes: true });
  expect((await failure(get(server.port, brief))).code).toBe("ECONNRESET");
  // The agent has a session that was valid, and resumes it.
  expect((await failure(get(server.port, { ...brief, agent }))).code).toBe("ECONNRESET");
  lasting.destroy();
  agent.destroy();
});

/** The error of a connection that is rejected after the handshake: in TLS 1.3, the client has completed it by then. */
async function failure(call: Promise<unknown>): Promise<NodeJS.ErrnoException> {
  return (await call.then(
    () => new Error("the connection was accepted"),
    (error: unknown) => error,
  )) as NodeJS.ErrnoException;
}

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

describe("at the start", () => {
  const { cert, key } = issueServer(authority);

  test.each([
    ["tls.keyFile: is not the key of the certificate in tls.certFile", { server: { cert, key: workloads.key } }],
    ["tls.certFile: must contain certificates in PEM format", { server: { cert: key, key } }],
    ["tls.certFile: must contain certificates in PEM format", { server: { cert: `${cert}${cert.slice(0, 80)}`, key } }],
    ["tls.keyFile: must contain a private key in PEM format, without a passphrase", { server: { cert, key: cert } }],
    [
      "tls.keyFile: must contain a private key in PEM format, without a passphrase",
      { server: { cert, key: encrypted() } },
    ],
    [
      "tls.clientCaFile: must contain certificates in PEM format",
      { clientCa: "", clientCertificate: "require" as const },
    ],
  ])("rejects files that can't be used: %s", async (message, opening) => {
    await expect(open(opening)).rejects.toMatchObject({ message });
  });

  test("warns once a day of a certificate that expires within two weeks, until it is replaced", async () => {
    const clock = createClock();
    const ending = issueServer(authority, { from: daysFromNow(-70), to: daysFromNow(20) });
    await using server = await open({ server: ending, nowMs: () => clock.nowMs() });
    const warnings = async (): Promise<number> => {
      await clock.looks(5);
      return (await server.logged(/^/)).split("tls.certFile: the certificate expires soon: renew it").length - 1;
    };
    expect(await warnings()).toBe(0);
    clock.setDays(6.5);
    expect(await warnings()).toBe(1);
    clock.setDays(7.4);
    expect(await warnings()).toBe(1);
    clock.setDays(7.6);
    expect(await warnings()).toBe(2);

    const next = issueServer(authority, { to: daysFromNow(80) });
    await writeFile(server.keyFile, next.key);
    await writeFile(server.certFile, next.cert);
    await server.logged(/were reloaded/);
    clock.setDays(15);
    expect(await warnings()).toBe(2);
  });

  test("does not warn of a short-lived certificate before the last third of its validity", async () => {
    const clock = createClock();
    const short = issueServer(authority, { from: daysFromNow(-1), to: daysFromNow(5) });
    await using server = await open({ server: short, nowMs: () => clock.nowMs() });
    await clock.looks(5);
    expect(await server.logged(/^/)).not.toContain("the certificate");
    clock.setDays(3.5);
    await server.logged(/the certificate expires soon: renew it/);
    clock.setDays(5.5);
    await server.logged(/the certificate has expired, clients will reject it/);
  });

  test("warns of a certificate that has expired, or is not valid yet", async () => {
    await using expired = await open({ server: issueServer(authority, { to: daysFromNow(-0.5) }) });
    expect(await expired.logged(/tls\.certFile/)).toContain(
      "the certificate has expired, clients will reject it: renew it",
    );
    await using early = await open({ server: issueServer(authority, { from: daysFromNow(0.5) }) });
    expect(await early.logged(/tls\.certFile/)).toContain("the certificate is not valid yet, clients will reject it");
  });
});

/** A clock that is read at each poll of the files. */
function createClock() {
  const startMs = Date.now();
  let days = 0;
  let seen = 0;
  return {
    nowMs() {
      seen += 1;
      return startMs + days * 86_400_000;
    },
    setDays: (passed: number) => void (days = passed),
    looks(count: number): Promise<void> {
      const until = seen + count;
      return eventually(async () => expect(seen).toBeGreaterThanOrEqual(until));
    },
  };
}

function encrypted(): string {
  return generateKeyPairSync("ec", {
    namedCurve: "P-256",
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "secret" },
  }).privateKey;
}

describe("when the files change", () => {
  const serialOf = ({ cert }: Issued): string => new X509Certificate(cert).serialNumber;

  /** Waits until new connections get this certificate, and returns its serial number. */
  function served(port: number, issued: Issued): Promise<string> {
    return eventually(async () => {
      const { serial } = await get(port);
      expect(serial).toBe(serialOf(issued));
      return serial;
    });
  }

  test("new connections get the new certificate, and open ones stay", async () => {
    await using server = await open();
    const session = http2.connect(server.url, client);
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
    const before = await get(server.port, { ...client, agent });
    expect(await text(session.request({ ":path": "/auth/login" }))).toBe(login);

    const next = issueServer(authority);
    await writeFile(server.certFile, next.cert);
    await writeFile(server.keyFile, next.key);
    expect(await served(server.port, next)).toBe(serialOf(next));
    expect(await text(session.request({ ":path": "/auth/login" }))).toBe(login);
    expect(await get(server.port, { ...client, agent })).toEqual(before);
    session.destroy();
    agent.destroy();
  });

  test("a certificate without its key is not used until the key is there too", async () => {
    const first = issueServer(authority);
    await using server = await open({ server: first });
    const next = issueServer(authority);
    await writeFile(server.certFile, next.cert);
    await server.logged(/the previous ones stay in use tls\.keyFile: is not the key of the certificate/);
    expect((await get(server.port)).serial).toBe(serialOf(first));

    await writeFile(server.keyFile, next.key);
    expect(await served(server.port, next)).toBe(serialOf(next));
  });

  test.each([
    [
      "do not exist",
      (server: Awaited<ReturnType<typeof open>>) => rm(server.keyFile),
      /tls\.keyFile: \S+ can't be read \(ENOENT\)/,
    ],
    [
      "are no PEM",
      (server: Awaited<ReturnType<typeof open>>) => writeFile(server.certFile, "-----BEGIN"),
      /tls\.certFile: must contain certificates in PEM format/,
    ],
    [
      "have expired",
      async (server: Awaited<ReturnType<typeof open>>) => {
        const expired = issueServer(authority, { to: daysFromNow(-0.5) });
        await writeFile(server.certFile, expired.cert);
        await writeFile(server.keyFile, expired.key);
      },
      /tls\.certFile: the certificate expired on .*: renew it/,
    ],
  ])("files that %s are not used", async (_name, change, reason) => {
    const first = issueServer(authority);
    await using server = await open({ server: first });
    await change(server);
    await server.logged(reason);
    expect((await get(server.port)).serial).toBe(serialOf(first));
  });

  test("a symbolic link replaced in their path is detected, as in Kubernetes", async () => {
    await using server = await open();
    const mount = join(server.directory, "mount");
    const version = async (name: string, { cert, key }: Issued): Promise<void> => {
      await mkdir(join(mount, name), { recursive: true });
      await writeFile(join(mount, name, "tls.crt"), cert);
      await writeFile(join(mount, name, "tls.key"), key);
      await symlink(name, join(mount, "..next"));
      await rename(join(mount, "..next"), join(mount, "..data"));
    };
    const [first, second] = [issueServer(authority), issueServer(authority)];
    await version("..2026_1", first);
    for (const file of ["tls.crt", "tls.key"]) {
      await symlink(join("..data", file), join(mount, file));
      await symlink(join("mount", file), join(server.directory, `..${file}`));
      await rename(join(server.directory, `..${file}`), join(server.directory, file));
    }
    expect(await served(server.port, first)).toBe(serialOf(first));
    await version("..2026_2", second);
    expect(await served(server.port, second)).toBe(serialOf(second));
  });

  test("clients of a removed authority are rejected, and those of the new one accepted", async () => {
    await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
    const others = createAuthority("Others");
    const [old, young] = [workloads.issue(), others.issue()];
    const status = (issued: Issued) =>
      get(server.port, { ...client, ...issued }).then(
        ({ status }) => status,
        () => 0,
      );
    expect([await status(old), await status(young)]).toEqual([200, 0]);
    await writeFile(server.clientCaFile, others.cert);
    await eventually(async () => expect([await status(old), await status(young)]).toEqual([0, 200]));
  });

  test("a session is not resumed after its authority was removed", async () => {
    await using server = await open({ clientCa: workloads.cert, clientCertificate: "require" });
    const agent = new https.Agent({ maxCachedSessions: 10 });
    const old = { ...client, ...workloads.issue(), agent };
    expect(await get(server.port, old)).toMatchObject({ status: 200, resumed: false });
    expect(await get(server.port, old)).toMatchObject({ status: 200, resumed: true });
    await writeFile(server.clientCaFile, createAuthority("Others").cert);
    await server.logged(/the certificate files were reloaded/);
    expect((await failure(get(server.port, old))).code).toBe("ECONNRESET");
  });
});
