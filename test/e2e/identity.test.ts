import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import { ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { tryDeploy } from "./deploy.ts";
import { bearer, form } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

const authority = createAuthority();
const workloads = createAuthority("Workloads");
const deployer = "spiffe://example.org/ns/prod/sa/deployer";
const reader = "spiffe://example.org/ns/prod/sa/reader";
const stranger = "spiffe://example.net/ns/prod/sa/deployer";
const rules = [
  { id: "spiffe://example.org/*", permissions: "read" },
  { id: deployer, permissions: "*" },
];
const adminAuth = { users: [user("admin", "*"), user("guest", "read")] };

/** How a client connects: with TLS and a certificate, or from an address. */
type Connecting = SecureContextOptions & { readonly localAddress?: string };
type Caller = (service: Service, headers?: Record<string, string>, connecting?: Connecting) => Promise<string>;

/** Returns the authenticated name of a caller, or the reason of its rejection; equal over all protocols. */
const callers: Record<string, Caller> = {
  async "REST over HTTP/1.1"(service, headers = {}, connecting = {}) {
    const { get } = service.url.startsWith("https:") ? https : http;
    const request = get(`${service.url}/settings`, { headers, agent: false, ...connecting });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    return readRest(response.statusCode ?? 0, response.headers["www-authenticate"], await text(response));
  },
  async "REST over HTTP/2"(service, headers = {}, connecting = {}) {
    const session = http2.connect(service.url, connecting);
    const stream = session.request({ ":path": "/settings", ...headers });
    const [response] = (await once(stream, "response")) as [http2.IncomingHttpHeaders & { ":status": number }];
    const body = await text(stream);
    session.close();
    return readRest(response[":status"], response["www-authenticate"], body);
  },
  "Connect over HTTP/1.1": callRpc((baseUrl, nodeOptions) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", nodeOptions }),
  ),
  "Connect over HTTP/2": callRpc((baseUrl, nodeOptions) =>
    createConnectTransport({ baseUrl, httpVersion: "2", nodeOptions }),
  ),
  gRPC: callRpc((baseUrl, nodeOptions) => createGrpcTransport({ baseUrl, nodeOptions })),
  "gRPC-Web over HTTP/1.1": callRpc((baseUrl, nodeOptions) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "1.1", nodeOptions }),
  ),
  "gRPC-Web over HTTP/2": callRpc((baseUrl, nodeOptions) =>
    createGrpcWebTransport({ baseUrl, httpVersion: "2", nodeOptions }),
  ),
};

function callRpc(createTransport: (baseUrl: string, nodeOptions: object) => Transport): Caller {
  return async ({ url }, headers = {}, connecting = {}) => {
    try {
      const { user } = await createClient(SettingsService, createTransport(url, connecting)).getSettings(
        {},
        { headers },
      );
      return user?.username ?? "anonymous";
    } catch (error) {
      const reason = ConnectError.from(error).findDetails(ErrorInfoSchema)[0]?.reason;
      if (reason === undefined) {
        throw error;
      }
      return reason;
    }
  };
}

/** The reason over REST, which has only the challenge. */
function readRest(status: number, challenge: string | undefined, body: string): string {
  if (status === 401) {
    const error = /error="(\w+)"/.exec(challenge ?? "")?.[1];
    return error ?? "no_token";
  }
  return (JSON.parse(body) as { user?: { username: string } }).user?.username ?? "anonymous";
}

/** The common result, or all results if they differ. REST has the same challenge for two reasons. */
async function everyone(...parameters: Parameters<Caller>): Promise<string> {
  const ofRpc = new Set<string>();
  const ofRest = new Set<string>();
  for (const [name, call] of Object.entries(callers)) {
    (name.startsWith("REST") ? ofRest : ofRpc).add(await call(...parameters));
  }
  const [only = ""] = ofRpc;
  const challenged = only === "invalid_identity" ? "no_token" : only;
  const agree = ofRpc.size === 1 && ofRest.size === 1 && ofRest.has(challenged);
  return agree ? only : `RPC: ${[...ofRpc].join()}; REST: ${[...ofRest].join()}`;
}

/** The error code of a failed connection. */
async function failure(call: Promise<unknown>): Promise<string | undefined> {
  return call.then(
    () => undefined,
    (error: unknown) => (error as NodeJS.ErrnoException).code,
  );
}

describe("by client certificate", () => {
  const { cert, key } = issueServer(authority);
  const clientOf = (...uris: string[]) => ({ ca: authority.cert, ...workloads.issue({ uris }) });

  async function start(config: object) {
    const directory = await mkdtemp(join(tmpdir(), "flowgate-tls-"));
    const path = (name: string) => join(directory, name);
    await writeFile(path("tls.crt"), cert);
    await writeFile(path("tls.key"), key);
    await writeFile(path("ca.crt"), workloads.cert);
    const tls = {
      certFile: path("tls.crt"),
      keyFile: path("tls.key"),
      clientCaFile: path("ca.crt"),
      clientCertificate: "request",
    };
    const service = await startService({
      config: { ...withoutRuntime, adminAuth, tls, log: { level: "info" }, ...config },
      tls: { ca: authority.cert },
    }).catch(async (error: unknown) => {
      await rm(directory, { recursive: true });
      throw error;
    });
    return {
      ...service,
      path,
      async [Symbol.asyncDispose]() {
        await service[Symbol.asyncDispose]();
        await rm(directory, { recursive: true });
      },
    };
  }

  const identity = { source: "certificate", rules };
  let service: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    service = await start({ identity });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("a workload is identified by its certificate, over every protocol", async () => {
    expect(await everyone(service, {}, clientOf(deployer))).toBe(deployer);
    expect(await everyone(service, {}, clientOf(reader))).toBe(reader);
    expect(await everyone(service, {}, clientOf(stranger))).toBe("no_token");
    expect(await everyone(service, {}, clientOf())).toBe("no_token");
    expect(await everyone(service, {}, { ca: authority.cert })).toBe("no_token");
    expect(await everyone(service, {}, clientOf(deployer, reader))).toBe("invalid_identity");
    // Headers are ignored here.
    const forged = { "x-forwarded-client-cert": `URI=${deployer}` };
    expect(await everyone(service, forged, clientOf(reader))).toBe(reader);
    expect(await everyone(service, forged, { ca: authority.cert })).toBe("no_token");
  });

  test("a token takes precedence", async () => {
    const guest = bearer(await login(service, { username: "guest", scope: "read" }));
    expect(await everyone(service, guest, clientOf(deployer))).toBe("guest");
    expect(await everyone(service, guest, clientOf(deployer, reader))).toBe("guest");
    expect(await everyone(service, bearer("A".repeat(43)), clientOf(deployer))).toBe("invalid_token");

    const as = (...uris: string[]): Pick<Service, "send"> => ({
      send: (method, path, sending) => service.send(method, path, { ...sending, tls: clientOf(...uris) }),
    });
    expect((await tryDeploy(as(deployer), { flows: [] }, "full", guest)).status).toBe(401);
    expect((await tryDeploy(as(reader), { flows: [] })).status).toBe(401);
    expect((await tryDeploy(as(deployer), { flows: [] })).status).toBe(200);
    await service.untilLogged(new RegExp(`"by":"${deployer}"`));
    // A workload with a rule is authenticated, like a user.
    const token = guest.authorization.slice("Bearer ".length);
    const revoke = { headers: form, body: `token=${token}` };
    expect((await as(stranger).send("POST", "/auth/revoke", revoke)).status).toBe(401);
    expect((await as(reader).send("POST", "/auth/revoke", revoke)).status).toBe(200);
  });

  test("is ignored unless it is configured", async () => {
    await using other = await start({});
    expect(await everyone(other, {}, clientOf(deployer))).toBe("no_token");
  });

  test("a workload without a rule has no permissions without adminAuth", async () => {
    await using other = await start({ identity, adminAuth: undefined, host: "127.0.0.1" });
    expect(other.log()).toContain("Authentication: on, for workloads with a SPIFFE ID\n");
    expect(await everyone(other, {}, clientOf(reader))).toBe(reader);
    expect(await everyone(other, {}, clientOf(stranger))).toBe("no_token");
    expect(await everyone(other, bearer("A".repeat(43)), clientOf(deployer))).toBe("invalid_token");
  });

  test("a resumed session still identifies the workload", async () => {
    const agent = new https.Agent({ maxCachedSessions: 10, ...clientOf(deployer) });
    const resumed: boolean[] = [];
    for (let i = 0; i < 3; i++) {
      const request = https.get(`${service.url}/settings`, { agent });
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      resumed.push((request.socket as TLSSocket).isSessionReused());
      expect(readRest(response.statusCode ?? 0, undefined, await text(response))).toBe(deployer);
    }
    expect(resumed).toContain(true);
  });

  // The last one: it changes the certificates of the service.
  test("SIGHUP reloads rotated files at once", async () => {
    const next = createAuthority("Next");
    const young = { ca: authority.cert, ...next.issue({ uris: [reader] }) };
    const [call = () => Promise.reject(new Error("no caller"))] = Object.values(callers);
    expect(await failure(call(service, {}, young))).toBe("ECONNRESET");
    await writeFile(service.path("ca.crt"), next.cert);
    process.kill(service.pid, "SIGHUP");
    await service.untilLogged(/the certificate files were reloaded/);
    expect(await call(service, {}, young)).toBe(reader);
    expect(await failure(call(service, {}, clientOf(reader)))).toBe("ECONNRESET");
  });
});

const proxy = { localAddress: "127.0.0.1" };
const forger = { localAddress: "127.0.0.2" };
const xfcc = (value: string) => ({ "x-forwarded-client-cert": value });

describe("by a forwarded certificate", () => {
  const identity = { source: "forwarded", rules };
  const config = { ...withoutRuntime, adminAuth, identity, trustedProxies: ["127.0.0.1"] };

  let service: Service;
  beforeAll(async () => {
    service = await startService({ config });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("a workload is identified by a trusted proxy only, over every protocol", async () => {
    const said = xfcc(`By=spiffe://example.org/gateway;Hash=00;Subject="CN=a,b";URI=${deployer}`);
    expect(await everyone(service, said, proxy)).toBe(deployer);
    expect(await everyone(service, said, forger)).toBe("no_token");
    // Forged by a client, through a proxy that appends to it.
    expect(await everyone(service, xfcc(`URI=${deployer},By=spiffe://example.org/gateway;URI=${reader}`), proxy)).toBe(
      reader,
    );
    expect(await everyone(service, xfcc(`URI=${stranger}`), proxy)).toBe("no_token");
    expect(await everyone(service, xfcc(`URI=${deployer};URI=${reader}`), proxy)).toBe("invalid_identity");
    expect(await everyone(service, xfcc(`x=",URI=${deployer}`), proxy)).toBe("invalid_identity");
    expect(await everyone(service, xfcc(`URI=${deployer};URI=${reader}`), forger)).toBe("no_token");
    expect(await everyone(service, {}, proxy)).toBe("no_token");
    // X-Forwarded-For does not affect which peer is trusted.
    expect(await everyone(service, { ...said, "x-forwarded-for": "127.0.0.1" }, forger)).toBe("no_token");
  });

  test("a repeated header is rejected", async () => {
    const said = `URI=${deployer}`;
    const request = http.get(`${service.url}/settings`, {
      agent: false,
      headers: { "X-Forwarded-Client-Cert": [said, said] },
    });
    const [one] = (await once(request, "response")) as [http.IncomingMessage];
    expect(one.statusCode).toBe(401);
    const session = http2.connect(service.url);
    const stream = session.request({ ":path": "/settings", "x-forwarded-client-cert": [said, said] });
    const [two] = (await once(stream, "response")) as [http2.IncomingHttpHeaders & { ":status": number }];
    expect(two[":status"]).toBe(401);
    session.destroy();
  });
});

describe("behind a trusted proxy", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: { ...withoutRuntime, adminAuth, trustedProxies: ["127.0.0.1"] } });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("a forwarded certificate is ignored unless it is configured", async () => {
    expect(await everyone(service, xfcc(`URI=${deployer}`), proxy)).toBe("no_token");
  });

  test("failed logins are counted by the nearest forwarded address, not by those that a client has sent", async () => {
    const attempt = async (at: number, nearest = "198.51.100.1"): Promise<number> => {
      const from = `192.0.2.${at}, ${nearest}`;
      const body = new URLSearchParams(tokenParameters({ username: from, password: "wrong" })).toString();
      return (await service.send("POST", "/auth/token", { headers: { ...form, "x-forwarded-for": from }, body }))
        .status;
    };
    for (let at = 0; at < 50; at++) {
      expect(await attempt(at)).toBe(400);
    }
    expect(await attempt(50)).toBe(429);
    expect(await attempt(50, "198.51.100.2")).toBe(400);
  });
});
