import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { grpcioSteps, hasGrpcio, startGrpcio } from "./grpcio.ts";
import { haproxy, openHaproxy } from "./haproxy.ts";
import { keepCalling } from "./keep-calling.ts";
import { nginx, openNginx } from "./nginx.ts";
import { isMissing, run } from "./program.ts";
import { authority, type Proxy, type ProxyOptions, replace, serviceCertificate } from "./proxy.ts";
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
import { startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { sendRequest, transportsOf, type HttpClient } from "./http-client.ts";

const adminAuth = { users: [user("admin", "*")], default: { permissions: "settings.read" } };
const open = { nginx: openNginx, HAProxy: openHaproxy };
type Name = keyof typeof open;
const names = Object.keys(open) as Name[];
const clientNames = ["HTTP/1.1", "h2c", "HTTP/1.1 over TLS", "HTTP/2 over TLS"];
const isThere = existsSync(nginx) && existsSync(haproxy);

let directory: string;
/** A service without and one with `tls`. */
const behind = {} as Record<"plain" | "tls", Behind>;
/** In front of the first, and in front of the second, where they also request client certificates. */
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
  if (!isThere) {
    return;
  }
  directory = await mkdtemp(join(tmpdir(), "flowgate-proxies-"));
  const files = { certFile: join(directory, "tls.crt"), keyFile: join(directory, "tls.key") };
  await writeFile(files.certFile, serviceCertificate.cert);
  await writeFile(files.keyFile, serviceCertificate.key);
  await writeFile(join(directory, "ca.crt"), authority.cert);
  [behind.plain, behind.tls] = await Promise.all([openBehind({}), openBehind({ tls: files })]);
  for (const name of names) {
    proxies.plain[name] = opened.use(await before(name, behind.plain));
    proxies.tls[name] = opened.use(await before(name, behind.tls, { upstreamTls: true, clientCertificates: true }));
  }
});
afterAll(async () => {
  await opened.disposeAsync();
  await rm(directory, { recursive: true, force: true });
});

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

describe.skipIf(isMissing("nginx and HAProxy", isThere))("the configurations of deploy/", () => {
  describe.each(names)("%s", (name) => {
    describe.each(["plain", "tls"] as const)("before a service: %s", (upstream) => {
      describe.each(clientNames)("from a client: %s", (clientName) => {
        test.each(runsCheck)("%s", async (_, check) => {
          const checked = check(clientOf(proxies[upstream][name], clientName), behind[upstream]);
          await expect(checked).resolves.toBeUndefined();
        });
      });

      test("without a warning", () => {
        expect(proxies[upstream][name].log()).toBe("");
      });
    });

    test.each(clientNames.filter((clientName) => clientName.endsWith("TLS")))(
      "forwards the certificates of workloads: %s",
      async (clientName) => {
        await expect(checkClientCertificates(clientOf(proxies.tls[name], clientName))).resolves.toBeUndefined();
      },
    );

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

    test("rejects a service whose certificate has another name or another authority", async () => {
      for (const change of [
        ["flowgate.internal", "other.internal"],
        ["ca.crt", "workloads.crt"],
      ] as const) {
        const edit = (config: string) => replace(config, [change]);
        await using proxy = await before(name, behind.tls, { upstreamTls: true, edit });
        const { status } = await sendRequest(clientOf(proxy, "HTTP/1.1"), "GET", "/settings");
        expect([502, 503]).toContain(status);
      }
    });
  });
});

type RequestError = readonly [
  fault: string,
  name: Name,
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

describe.skipIf(!isThere)("the checks detect an incorrect configuration", () => {
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

  test.each(names)("an unknown directive (%s)", async (name) => {
    const edit = (config: string) => `${config}\nflowgates on;\n`;
    await expect(before(name, behind.plain, { edit })).rejects.toThrow(/unknown (directive|keyword) ["']flowgates["']/);
  });
});

describe.skipIf(!isThere)("third-party clients", () => {
  const caFile = () => join(directory, "ca.crt");

  test.each(names)("buf curl, by reflection over TLS (%s)", async (name) => {
    for (const protocol of ["grpc", "grpcweb", "connect"]) {
      const { url } = clientOf(proxies.plain[name], "HTTP/2 over TLS");
      const args = ["--protocol", protocol, "--cacert", caFile(), "--data", '{"service":"flowgate.v1.FlowsService"}'];
      const { stdout, stderr } = await run("buf", "curl", ...args, `${url}/grpc.health.v1.Health/Check`);
      expect([protocol, stderr]).toEqual([protocol, ""]);
      expect(JSON.parse(stdout)).toEqual({ status: "SERVING" });
    }
  });

  test.skipIf(isMissing("curl", existsSync("/usr/bin/curl"))).each(names)(
    "curl, with a body that waits for 100 Continue (%s)",
    async (name) => {
      const body = join(directory, "flows.json");
      await writeFile(body, JSON.stringify([{ id: "t", type: "tab", info: "x".repeat(1_000_000) }]));
      const { token } = behind.plain;
      const httpClients = [
        ["--http1.1", clientOf(proxies.plain[name], "HTTP/1.1").url, "1.1"],
        ["--http2-prior-knowledge", clientOf(proxies.plain[name], "h2c").url, "2"],
        ["--http1.1", clientOf(proxies.plain[name], "HTTP/1.1 over TLS").url, "1.1"],
        ["--http2", clientOf(proxies.plain[name], "HTTP/2 over TLS").url, "2"],
      ];
      const commonArgs = [
        "-sS",
        "--cacert",
        caFile(),
        "-w",
        "%{http_version} %{http_code}",
        "--data-binary",
        `@${body}`,
      ];
      const headers = [`Authorization: ${bearer(token).authorization}`, "Content-Type: application/json"];
      for (const [flag = "", url = "", version = ""] of httpClients) {
        // Not over HTTP/2, where nginx never sends 100 Continue.
        const all = version === "2" ? headers : [...headers, "Expect: 100-continue"];
        const args = [flag, ...commonArgs, ...all.flatMap((header) => ["-H", header])];
        const { stdout, stderr } = await run("curl", ...args, `${url}/flows`);
        expect([url, stdout, stderr]).toEqual([url, `${version} 204`, ""]);
      }
    },
  );

  test.each(names)("@grpc/grpc-js, over TLS (%s)", async (name) => {
    const client = new Client(
      `localhost:${proxies.plain[name].ports.tls}`,
      credentials.createSsl(Buffer.from(authority.cert)),
    );
    const metadata = new Metadata();
    metadata.set("authorization", bearer(behind.plain.token).authorization);
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

  test.skipIf(isMissing("h2load", existsSync("/usr/bin/h2load"))).each(names)("h2load (%s)", async (name) => {
    const total = 1_000;
    const body = join(directory, "empty.grpc");
    await writeFile(body, new Uint8Array(5));
    const args = [`--requests=${total}`, "--clients=4", "--max-concurrent-streams=8"];
    const grpc = ["-d", body, "-H", "content-type: application/grpc", "-H", "te: trailers"];
    const { url } = clientOf(proxies.plain[name], "h2c");
    for (const [path, ...more] of [["/settings"], ["/flowgate.v1.SettingsService/GetSettings", ...grpc]]) {
      const { stdout } = await run("h2load", ...args, ...more, `${url}${path}`);
      expect(stdout).toContain(`status codes: ${total} 2xx, 0 3xx, 0 4xx, 0 5xx`);
      expect(Number(/\((\d+)\) data$/m.exec(stdout)?.[1])).toBeGreaterThanOrEqual(2 * total);
    }
  });
});

describe.skipIf(!isThere)("one of two services that drains during calls", () => {
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
  };

  test("fails no call, unless health checks and retries are disabled", async () => {
    await using stack = new AsyncDisposableStack();
    const services = await Promise.all([startService({ config }), startService({ config })]);
    services.forEach((service) => stack.use(service));
    const upstreams = services.map(({ port }) => port);
    const careful: ReturnType<typeof keepCalling>[] = [];
    const careless: ReturnType<typeof keepCalling>[] = [];
    const read = (httpClient: HttpClient) =>
      keepCalling(async () => (await sendRequest(httpClient, "GET", "/settings")).status);
    for (const name of names) {
      const proxy = stack.use(await open[name]({ upstreams }));
      careful.push(...proxy.httpClients.map(read));
      const { gRPC: grpc } = transportsOf(clientOf(proxy, "h2c"));
      if (grpc !== undefined) {
        const client = createClient(SettingsService, grpc);
        careful.push(keepCalling(async () => (await client.getSettings({})) && 200));
      }
      const other = stack.use(await open[name]({ upstreams, edit: carelessly[name] }));
      careless.push(read(clientOf(other, "HTTP/1.1")));
    }
    const all = [...careful, ...careless];
    await Promise.all(all.map((calls) => calls.more(10)));
    expect(await services[0]?.stop()).toBe(0);
    await Promise.all(all.map((calls) => calls.more(10)));
    const outcomes = await Promise.all(all.map((calls) => calls.end()));
    expect(outcomes.slice(0, careful.length)).toEqual(careful.map(() => [200]));
    expect(outcomes.slice(careful.length)).toEqual([expect.arrayContaining([502]), expect.arrayContaining([503])]);
  });
});

// Last, since it stops the service.
describe.skipIf(!isThere || isMissing("python3-grpcio", hasGrpcio))("grpcio of Python", () => {
  test("deploys, reads, is rejected, and watches the service until it stops", async () => {
    const clients = [];
    for (const name of names) {
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
