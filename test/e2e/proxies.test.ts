import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { envoy, openEnvoy } from "./envoy.ts";
import { grpcioSteps, hasGrpcio, startGrpcio } from "./grpcio.ts";
import { haproxy, openHaproxy } from "./haproxy.ts";
import { keepCalling } from "./keep-calling.ts";
import { nginx, openNginx } from "./nginx.ts";
import { isMissing, run } from "./program.ts";
import { authority, type Proxy, type ProxyOptions, replace, serviceCertificate, workloads } from "./proxy.ts";
import {
  type Behind,
  type Check,
  checkClientCertificates,
  checkLoginLimit,
  type CheckName,
  checks,
  proxiedConfig,
} from "./proxy-checks.ts";
import { bearer } from "./rest.ts";
import { eventually, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { sendRequest, transportsOf, type HttpClient } from "./http-client.ts";

const adminAuth = { users: [user("admin", "*")], default: { permissions: "settings.read" } };
const open = { nginx: openNginx, HAProxy: openHaproxy, Envoy: openEnvoy };
type Name = keyof typeof open;
const names = ["nginx", "HAProxy", "Envoy"] as const satisfies Name[];
/** Those that also accept clients without TLS. */
const plainNames = ["nginx", "HAProxy"] as const satisfies Name[];
const programs = { nginx: existsSync(nginx), HAProxy: existsSync(haproxy), Envoy: envoy !== undefined };
const installed = names.filter((name) => !isMissing(name, programs[name]));
const hasBoth = plainNames.every((name) => programs[name]);

/**
 * How a proxy connects to the service does not depend on how the client has connected, so that each side is tested once: clients with TLS
 * before a service without it, as is most common, and the reverse. gRPC needs HTTP/2, which Envoy offers over TLS only.
 */
const clientsBefore: Record<Name, Record<"plain" | "tls", string[]>> = {
  nginx: { plain: ["HTTP/1.1 over TLS", "HTTP/2 over TLS"], tls: ["HTTP/1.1", "h2c"] },
  HAProxy: { plain: ["HTTP/1.1 over TLS", "HTTP/2 over TLS"], tls: ["HTTP/1.1", "h2c"] },
  Envoy: { plain: ["HTTP/1.1 over TLS"], tls: ["HTTP/1.1 over TLS", "HTTP/2 over TLS"] },
};

let directory: string;
/** A service without and one with `tls`. */
const behind = {} as Record<"plain" | "tls", Behind>;
/** In front of the first, where they also request client certificates, and in front of the second. */
const proxies = { plain: {}, tls: {} } as Record<"plain" | "tls", Record<Name, Proxy>>;
const opened = new AsyncDisposableStack();

async function openBehind(config: object): Promise<Behind> {
  const service = opened.use(
    await startService({ config: { ...proxiedConfig, adminAuth, ...config }, tls: { ca: authority.cert } }),
  );
  const [, metricsUrl = ""] = /^Metrics.*: (http:\/\/\S+)\/metrics$/m.exec(service.log()) ?? [];
  return { service, metricsUrl, token: await login(service, {}) };
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "flowgate-proxies-"));
  opened.defer(() => rm(directory, { recursive: true }));
  if (installed.length === 0) {
    return;
  }
  const files = { certFile: join(directory, "tls.crt"), keyFile: join(directory, "tls.key") };
  await writeFile(files.certFile, serviceCertificate.cert);
  await writeFile(files.keyFile, serviceCertificate.key);
  await writeFile(join(directory, "ca.crt"), authority.cert);
  [behind.plain, behind.tls] = await Promise.all([openBehind({}), openBehind({ tls: files })]);
  for (const name of installed) {
    proxies.plain[name] = opened.use(await before(name, behind.plain, { clientCertificates: true }));
    proxies.tls[name] = opened.use(await before(name, behind.tls, { upstreamTls: true }));
  }
});
afterAll(() => opened.disposeAsync());

function before(name: Name, { service }: Behind, options: Partial<ProxyOptions> = {}): Promise<Proxy> {
  return open[name]({ upstreams: [service.port], ...options });
}

function clientOf(proxy: Proxy, name: string): HttpClient {
  const httpClient = proxy.httpClients.find((httpClient) => httpClient.name === name);
  if (httpClient === undefined) {
    throw new Error(`${proxy.name} has no ${name}`);
  }
  return httpClient;
}

const runsCheck = Object.entries(checks) as [CheckName, Check][];

describe.each(names)("the configuration of deploy/ for %s", (name) => {
  const isAbsent = !installed.includes(name);

  describe.each(["plain", "tls"] as const)("before a service: %s", (upstream) => {
    describe.each(clientsBefore[name][upstream])("from a client: %s", (clientName) => {
      test.skipIf(isAbsent).each(runsCheck)("%s", async (_, check) => {
        const checked = check(clientOf(proxies[upstream][name], clientName), behind[upstream]);
        await expect(checked).resolves.toBeUndefined();
      });
    });

    test.skipIf(isAbsent)("without a warning", () => {
      // A health check may time out on a busy machine.
      const lines = proxies[upstream][name].log().split("\n");
      expect(lines.filter((line) => !/ is (?:DOWN|UP)\b|has no server available/.test(line))).toEqual([""]);
    });
  });

  test.skipIf(isAbsent).each(["HTTP/1.1 over TLS", "HTTP/2 over TLS"])(
    "forwards the certificates of workloads: %s",
    async (clientName) => {
      const id = (path: string) => `spiffe://example.org/${path}`;
      const certificates =
        name === "Envoy"
          ? { reader: { name: "x", uris: [id("reader")] }, others: [{ name: "reader", uris: [id("other")] }] }
          : {
              reader: { name: "reader" },
              others: [
                { name: "other" },
                { name: "other/reader" },
                { name: "x;URI=spiffe://example.org/reader" },
                { name: "x,CN=reader" },
                { name: "reader,O=x" },
              ],
            };
      const checked = checkClientCertificates(clientOf(proxies.plain[name], clientName), certificates);
      await expect(checked).resolves.toBeUndefined();
    },
  );

  test.skipIf(isAbsent)("rejects a service whose certificate has another name or another authority", async () => {
    for (const change of [
      ["flowgate.internal", "other.internal"],
      ["ca.crt", "workloads.crt"],
    ] as const) {
      const edit = (config: string) => replace(config, [change]);
      await using proxy = await before(name, behind.tls, { upstreamTls: true, edit });
      const { status } = await sendRequest(clientOf(proxy, "HTTP/1.1 over TLS"), "GET", "/settings");
      expect([502, 503]).toContain(status);
    }
  });
});

describe.skipIf(!hasBoth).each(plainNames)("%s, without TLS", (name) => {
  test("forwards client addresses, so that the lockout of one client does not affect others", async () => {
    const addresses = { nginx: ["127.0.1.1", "127.0.1.2"], HAProxy: ["127.0.2.1", "127.0.2.2"] } as const;
    const checked = checkLoginLimit(clientOf(proxies.plain[name], "HTTP/1.1"), addresses[name]);
    await expect(checked).resolves.toBeUndefined();
  });

  test("accepts targets in absolute form, and Upgrade", async () => {
    using raw = await openRaw(proxies.plain[name].ports.http);
    const { host } = new URL(clientOf(proxies.plain[name], "HTTP/1.1").url);
    raw.write(`GET http://${host}/settings HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    expect(await raw.until(/}/)).toMatch(/^HTTP\/1.1 200 .*"apiVersions"/s);
    using upgrading = await openRaw(proxies.plain[name].ports.http);
    const upgrade = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    upgrading.write(`GET /settings HTTP/1.1\r\nHost: ${host}\r\n${upgrade}\r\n`);
    expect(await upgrading.until(/}/)).toMatch(/^HTTP\/1.1 200 .*"apiVersions"/s);
  });
});

describe.skipIf(!programs.Envoy)("Envoy", () => {
  test("serves only clients with a certificate if require_client_certificate is set", async () => {
    const edit = (config: string) =>
      replace(config, [["require_client_certificate: false", "require_client_certificate: true"]]);
    await using proxy = await before("Envoy", behind.plain, { edit });
    const httpClient = clientOf(proxy, "HTTP/2 over TLS");
    await expect(sendRequest(httpClient, "GET", "/settings")).rejects.toThrow(
      /certificate required|closed|hang up|reset/i,
    );
    const reader = workloads.issue({ name: "x", uris: ["spiffe://example.org/reader"] });
    const identified = { ...httpClient, tls: { ...httpClient.tls, ...reader } };
    expect((await sendRequest(identified, "GET", "/settings")).json()).toMatchObject({
      user: { username: "spiffe://example.org/reader" },
    });
  });

  test("checks the health of a service with tls without ALPN", async () => {
    const edit = (config: string) => replace(config, [["alpn_protocols: [h2]\n", "\n"]]);
    await using proxy = await before("Envoy", behind.tls, { upstreamTls: true, edit });
    const httpClient = clientOf(proxy, "HTTP/2 over TLS");
    await eventually(async () => expect((await sendRequest(httpClient, "GET", "/settings")).status).toBe(200));
  });
});

type RequestError = readonly [
  fault: string,
  name: (typeof plainNames)[number],
  from: string,
  to: string,
  found: CheckName,
  clientName: string,
];
const unary = "unary calls, and the details of their errors";
const streams = "streams, and their end when the client disconnects";
const bothDirections = "streams in both directions";
const large = "large bodies, and rejections of larger ones";
const paths = "unchanged paths";
const certificate = "no certificate header of a client";
const calledBy = "the requested host name";
const address = "the client's address";

describe.skipIf(!hasBoth)("the checks detect an incorrect configuration", () => {
  test.each<RequestError>([
    ["gRPC over HTTP/1.1", "nginx", "grpc_pass grpc:", "proxy_pass http:", unary, "h2c"],
    ["Connect's streams over HTTP/1.1", "nginx", "|connect\\+", "", bothDirections, "h2c"],
    ["one pool for both versions of HTTP", "nginx", "grpc://flowgate_http2", "grpc://flowgate", unary, "h2c"],
    ["bodies collected first", "nginx", "proxy_request_buffering off;", "", "deadlines", "HTTP/1.1"],
    ["a limit of its own", "nginx", "client_max_body_size ", "client_max_body_size 1m; #", large, "HTTP/1.1"],
    ["a path of its own", "nginx", "proxy_pass http://flowgate;", "proxy_pass http://flowgate/;", paths, "HTTP/1.1"],
    ["a name of its own", "nginx", "proxy_set_header   Host ", "proxy_set_header X-Host ", calledBy, "HTTP/1.1"],
    ["a name of its own", "nginx", "grpc_set_header    Host ", "grpc_set_header X-Host ", calledBy, "h2c"],
    ["the client's own address header", "nginx", "$remote_addr;", "$http_x_forwarded_for;", address, "HTTP/1.1"],
    ["the client's own certificate header", "nginx", "proxy_set_header   X-Forwarded-Client", "#", certificate, "h2c"],
    ["the client's own certificate header", "nginx", "grpc_set_header    X-Forwarded-Client", "#", certificate, "h2c"],
    ["bodies collected first", "HAProxy", "option abortonclose", "option http-buffer-request", "deadlines", "HTTP/1.1"],
    ["clients that disconnect without notice", "HAProxy", "option abortonclose", "", streams, "HTTP/1.1"],
    ["the client's own address header", "HAProxy", "set-header X-Forwarded-For", "set-header X-For", address, "h2c"],
    [
      "the client's own certificate header",
      "HAProxy",
      "del-header X-Forwarded-Client",
      "del-header X",
      certificate,
      "h2c",
    ],
    [
      "the client's own host header",
      "HAProxy",
      "del-header X-Forwarded-Host",
      "del-header X-Host",
      calledBy,
      "HTTP/1.1",
    ],
  ])("%s (%s): %j", async (_, name, from, to, found, clientName) => {
    const edit = (config: string) => replace(config, [[from, to]]);
    await using proxy = await before(name, behind.plain, { edit });
    const checked = checks[found](clientOf(proxy, clientName), { ...behind.plain, timeoutMs: 1_000 });
    await expect(checked).rejects.toBeInstanceOf(Error);
  });

  test.each(plainNames)("an unknown directive (%s)", async (name) => {
    const edit = (config: string) => `${config}\nflowgates on;\n`;
    await expect(before(name, behind.plain, { edit })).rejects.toThrow(/unknown (directive|keyword) ["']flowgates["']/);
  });
});

describe.skipIf(!hasBoth)("third-party clients", () => {
  test.skipIf(isMissing("curl", existsSync("/usr/bin/curl"))).each(plainNames)(
    "curl, with a body that waits for 100 Continue (%s)",
    async (name) => {
      const body = join(directory, "flows.json");
      await writeFile(body, JSON.stringify([{ id: "t", type: "tab", info: "x".repeat(1_000_000) }]));
      const output = ["-sS", "-w", "%{http_version} %{http_code}"];
      const sent = ["--cacert", join(directory, "ca.crt"), "--data-binary", `@${body}`];
      const headers = [`Authorization: ${bearer(behind.tls.token).authorization}`, "Content-Type: application/json"];
      for (const [flag, clientName, version] of [
        ["--http1.1", "HTTP/1.1", "1.1"],
        ["--http2-prior-knowledge", "h2c", "2"],
        ["--http1.1", "HTTP/1.1 over TLS", "1.1"],
        ["--http2", "HTTP/2 over TLS", "2"],
      ] as const) {
        // Not over HTTP/2, where nginx never sends 100 Continue.
        const all = version === "2" ? headers : [...headers, "Expect: 100-continue"];
        const args = [flag, ...output, ...sent, ...all.flatMap((header) => ["-H", header])];
        const { url } = clientOf(proxies.tls[name], clientName);
        const { stdout, stderr } = await run("curl", ...args, `${url}/flows`);
        expect([url, stdout, stderr]).toEqual([url, `${version} 204`, ""]);
      }
    },
  );

  test.each(plainNames)("@grpc/grpc-js, over TLS (%s)", async (name) => {
    const client = new Client(
      `localhost:${proxies.tls[name].ports.tls}`,
      credentials.createSsl(Buffer.from(authority.cert)),
    );
    const metadata = new Metadata();
    metadata.set("authorization", bearer(behind.tls.token).authorization);
    const response = await new Promise((resolve, reject) => {
      const path = `/${SettingsService.typeName}/GetSettings`;
      const bytes = (from: Buffer) => from;
      client.makeUnaryRequest(path, bytes, bytes, Buffer.alloc(0), metadata, (error, value) =>
        error === null ? resolve(value?.toString()) : reject(error),
      );
    });
    client.close();
    expect(response).toContain("admin");
  });
});

test.skipIf(!hasBoth)(
  "no call fails when one of two services drains, unless health checks and retries are disabled",
  async () => {
    const config = {
      ...withoutRuntime,
      trustedProxies: ["127.0.0.1"],
      drain: { delayMs: 3_000 },
      limits: { eventLoopDelayMs: 0 },
    };
    const carelessly: Record<Name, (config: string) => string> = {
      nginx: (config) => replace(config, [["_next_upstream   error timeout", "_next_upstream off"]]),
      HAProxy: (config) =>
        replace(config, [
          ["retries 3", "retries 0"],
          ["inter 1s", "inter 1h"],
        ]),
      Envoy: (config) =>
        replace(config, [
          ["no_traffic_interval: 1s", ""],
          ["num_retries: 2", "num_retries: 0"],
        ]),
    };
    await using stack = new AsyncDisposableStack();
    const services = await Promise.all([startService({ config }), startService({ config })]);
    services.forEach((service) => stack.use(service));
    const upstreams = services.map(({ port }) => port);
    const careful: ReturnType<typeof keepCalling>[] = [];
    const careless: ReturnType<typeof keepCalling>[] = [];
    const read = (httpClient: HttpClient) =>
      keepCalling(async () => (await sendRequest(httpClient, "GET", "/settings")).status);
    for (const name of installed) {
      const proxy = stack.use(await open[name]({ upstreams }));
      careful.push(...proxy.httpClients.map(read));
      const { gRPC: grpc } = transportsOf(clientOf(proxy, "HTTP/2 over TLS"));
      if (grpc !== undefined) {
        const client = createClient(SettingsService, grpc);
        careful.push(keepCalling(async () => (await client.getSettings({})) && 200));
      }
      const other = stack.use(await open[name]({ upstreams, edit: carelessly[name] }));
      careless.push(read(clientOf(other, "HTTP/1.1 over TLS")));
    }
    const all = [...careful, ...careless];
    await Promise.all(all.map((calls) => calls.more(10)));
    expect(await services[0]?.stop()).toBe(0);
    await Promise.all(all.map((calls) => calls.more(10)));
    const outcomes = await Promise.all(all.map((calls) => calls.end()));
    expect(outcomes.slice(0, careful.length)).toEqual(careful.map(() => [200]));
    const failures = { nginx: 502, HAProxy: 503, Envoy: 503 };
    expect(outcomes.slice(careful.length)).toEqual(installed.map((name) => expect.arrayContaining([failures[name]])));
  },
);

// Last, since it stops the service.
describe.skipIf(!hasBoth || isMissing("python3-grpcio", hasGrpcio))("grpcio of Python", () => {
  test("deploys, reads, is rejected, and watches the service until it stops", async () => {
    const clients = [];
    for (const name of plainNames) {
      const client = startGrpcio(new URL(clientOf(proxies.plain[name], "h2c").url).host);
      await client.untilWatching();
      clients.push(client);
    }
    await behind.plain.service.stop();
    for (const client of clients) {
      expect(await client.ended()).toEqual({ complaints: "", steps: grpcioSteps });
    }
  });
});
