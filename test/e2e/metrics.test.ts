import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { Health, HealthCheckRequestSchema } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { deploy, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, installReporter, tab, reporter } from "./flow-builders.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { openRaw } from "../server/http/raw-connection.ts";
import { bearer, json, send, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Scrape, parseScrape, scrape } from "./scrape.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, passwordOf, tokenParameters, user } from "./users.ts";

const adminAuth = {
  users: [
    user("admin", "*"),
    user("reader", "read"),
    user("scraper", "metrics.read"),
    user("writer", ["flows.write", "settings.read"]),
  ],
};

describe("the metrics of a service", () => {
  const secrets: string[] = [];
  let service: Service;
  let token: Record<string, string>;
  let seen: Scrape;
  /** The metrics of a service with \`tls\`, which has additional ones. */
  let secured: Scrape;

  beforeAll(async () => {
    secured = await scrapeSecured();
    service = await startService({
      // All clients have the same address.
      config: {
        adminAuth,
        limits: { bodyBytes: 100_000 },
        credentialSecret: "the secret of all credentials",
        runtime: { freshProcess: "never" },
        metrics: { nodes: true },
      },
      prepare: installReporter,
    });
    token = bearer(await login(service, {}));
    await exercise();
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  async function exercise(): Promise<void> {
    const secret = (text: string): string => {
      secrets.push(text);
      return text;
    };
    secrets.push(
      token["authorization"]?.replace("Bearer ", "") ?? "",
      passwordOf("admin"),
      "the secret of all credentials",
    );
    // The same call, successful and rejected, over each protocol.
    for (const protocol of rpcProtocolNames) {
      const transport = rpcProtocols[protocol](service.url);
      await call(transport, FlowsService.method.getFlows, {}, token);
      await call(transport, FlowsService.method.getFlows, {});
      await call(transport, FlowsService.method.getFlows, {}, bearer(secret("a".repeat(43))));
      await call(transport, FlowsService.method.setFlows, { flows: [{ id: "", type: secret("a type") }] }, token);
    }
    await service.send("GET", "/flows", { headers: token });
    await service.send("GET", "/flows");
    await service.send("DELETE", "/flows", { headers: token });
    await service.send("GET", `/${secret("some-path")}?password=${secret("some-query")}`);
    await service.send("POST", "/flows", { headers: { ...token, ...json }, body: `{"${secret("some-key")}"` });
    await service.send("POST", "/flows", { headers: { ...token, ...json }, body: JSON.stringify("x".repeat(200_000)) });
    await service.send("POST", "/flowgate.v1.FlowsService/GetFlows", {
      headers: { "content-type": secret("text/odd") },
    });
    const wrong = tokenParameters({ username: secret("nobody-knows"), password: secret("wrong-password") });
    await service.send("POST", "/auth/token", { headers: json, body: JSON.stringify(wrong) });
    const garbage = connect({ port: service.port, host: "127.0.0.1" });
    garbage.end(`${secret("GARBAGE")}\r\n\r\n`);
    garbage.resume();
    await once(garbage, "close");

    const flows = [tab("T"), reporter("n", "T", { credentials: { password: secret("an inline credential") } })];
    const rev = await deploy(service, { flows: [...flows, ...endpoint("/hello", "")] }, "full", token);
    await service.get("/hello", token);
    secrets.push(rev);
    await deploy(service, { flows, credentials: { n: { password: secret("a credential") } } }, "nodes", token);
    await deploy(service, { flows: [...flows, functionNode("f", { z: "T" })] }, "flows", token);
    await deploy(service, { flows: [] }, "reload", token);
    await tryDeploy(service, { flows, rev }, "full", token);
    await tryDeploy(service, { flows, credentials: { $: secret("an encrypted form") } }, "full", token);
    await deploy(service, { flows: [tab("T"), { id: "m", type: "nowhere", z: "T", x: 1, y: 1 }] }, "full", token);

    // A request is counted at its end, which the client may detect first.
    seen = await eventually(async () => {
      const now = await scrape(service.url, token);
      expect(now.sum("flowgate_deployments_total")).toBe(12);
      expect(now.sum("flowgate_flow_http_requests_total")).toBe(1);
      return now;
    });
  }

  const getFlows = "flowgate.v1.FlowsService/GetFlows";
  const setFlows = "flowgate.v1.FlowsService/SetFlows";

  test.each([
    ["connect", 3],
    ["grpc", 1],
    ["grpc-web", 1],
    ["rest", 1],
  ])("calls over %s are counted by outcome", (protocol, times) => {
    const count = (labels: object): number => seen.sum("flowgate_requests_total", { protocol, ...labels });
    const isRest = protocol === "rest";
    expect({
      ok: count({ method: getFlows, code: "ok" }),
      unauthenticated: count({ method: getFlows, code: "unauthenticated" }),
      // Connect over GET has none.
      invalid: count({ method: setFlows, code: "invalid_argument" }),
    }).toEqual({
      ok: times,
      unauthenticated: isRest ? 1 : 2 * times,
      // Malformed JSON and a broken encrypted form, over the HTTP API.
      invalid: isRest ? 2 : times,
    });
  });

  test("requests that are not calls count as other, with the code of their status", () => {
    const count = (code: string): number => seen.sum("flowgate_requests_total", { method: "other", code });
    expect(count("not_found")).toBe(1);
    expect(count("unimplemented")).toBe(1);
    // Bytes that were not a valid request.
    expect(count("invalid_argument")).toBe(1);
  });

  test("calls rejected before the gate count for their RPC", () => {
    const labels = { method: getFlows, protocol: "connect", code: "invalid_argument" };
    expect(seen.sum("flowgate_requests_total", labels)).toBe(1);
    expect(seen.sum("flowgate_requests_total", { method: setFlows, code: "resource_exhausted" })).toBe(1);
    const issueToken = "flowgate.v1.AuthService/IssueToken";
    expect(seen.sum("flowgate_requests_total", { method: issueToken, code: "unauthenticated" })).toBe(1);
  });

  test("each request is in the histogram", () => {
    const total = seen.sum("flowgate_requests_total");
    expect(total).toBeGreaterThan(30);
    expect(seen.sum("flowgate_request_duration_seconds_count")).toBe(total);
    expect(seen.sum("flowgate_request_duration_seconds_bucket", { le: "+Inf" })).toBe(total);
    expect(seen.sum("flowgate_request_duration_seconds_sum")).toBeGreaterThan(0);
    // The scrape itself.
    expect(seen.sum("flowgate_requests_in_flight")).toBe(1);
    expect(seen.sum("flowgate_connections")).toBeGreaterThanOrEqual(1);
  });

  test("deployments are counted by type and outcome", () => {
    const count = (type: string, outcome: string): number => seen.sum("flowgate_deployments_total", { type, outcome });
    expect(count("full", "running")).toBe(1);
    expect(count("nodes", "running")).toBe(1);
    expect(count("flows", "running")).toBe(1);
    expect(count("reload", "running")).toBe(1);
    expect(count("full", "conflict")).toBe(1);
    expect(count("full", "not_running")).toBe(1);
    // Those over RPC, and one with an invalid encrypted form.
    expect(count("full", "refused")).toBe(6);
    expect(seen.sum("flowgate_deployment_duration_seconds_count")).toBe(12);
  });

  test("the operations of the store are measured", () => {
    const count = (operation: string, outcome: string): number =>
      seen.sum("flowgate_store_duration_seconds_count", { operation, outcome });
    expect(count("flows.commit", "ok")).toBe(4);
    expect(count("flows.commit", "refused")).toBe(1);
    expect(count("flows.reload", "ok")).toBe(1);
    expect(count("tokens.insert", "ok")).toBe(1);
    // Each token only once: then it is cached.
    expect(count("tokens.find", "ok")).toBeGreaterThan(0);
  });

  test("certificates and handshakes are reported only with TLS", () => {
    const notAfter = secured.sum("flowgate_certificate_not_after_seconds");
    expect(notAfter).toBe(new X509Certificate(issued.cert).validToDate.getTime() / 1000);
    expect(secured.sum("flowgate_tls_handshake_failures_total", { reason: "not_tls" })).toBe(1);
    expect(secured.sum("flowgate_tls_handshake_failures_total")).toBe(1);
    expect(seen.types.has("flowgate_tls_handshake_failures_total")).toBe(false);
  });

  test("counters with known reasons are exported from the start, with 0", async () => {
    const page = await readFile(new URL("../../docs/metrics.md", import.meta.url), "utf8");
    const valuesOf = (name: string, label: string, { samples }: Scrape = seen): string[] =>
      samples.filter((sample) => sample.name === name).map(({ labels }) => labels[label] ?? "");
    const reasons = valuesOf("flowgate_calls_shed_total", "reason");
    const limits = valuesOf("flowgate_limits_exceeded_total", "limit");
    const handshakes = valuesOf("flowgate_tls_handshake_failures_total", "reason", secured);
    expect([reasons.length, limits.length, handshakes.length]).toEqual([4, 12, 6]);
    expect(seen.sum("flowgate_calls_shed_total") + seen.sum("flowgate_limits_exceeded_total")).toBe(0);
    for (const value of [...reasons, ...limits, ...handshakes]) {
      expect(page).toContain(`\`${value}\``);
    }
  });

  test("exactly one state of the runtime is 1", () => {
    const states = seen.samples.filter(({ name }) => name === "flowgate_runtime_state");
    expect(Object.fromEntries(states.map(({ labels, value }) => [labels["state"], value]))).toEqual({
      starting: 0,
      running: 0,
      failed: 1,
      restarting: 0,
      safe: 0,
      stopped: 0,
      standby: 0,
      disabled: 0,
    });
    expect([seen.sum("flowgate_replicas", { state: "failed" }), seen.sum("flowgate_replicas")]).toEqual([1, 1]);
    expect(seen.sum("flowgate_runtime_restarts_total")).toBe(0);
    expect(seen.sum("flowgate_runtime_heartbeat_age_seconds")).toBeLessThan(60);
    expect(seen.sum("flowgate_build_info")).toBe(1);
  });

  test("a crash of the runtime is counted as a restart, a restart by a deployment is not", async () => {
    const before = await service.childPids();
    // Its flows have failed, so that a new process looks for missing modules.
    await deploy(service, { flows: [] }, "reload", token);
    expect(await service.childPids()).not.toEqual(before);
    expect((await scrape(service.url, token)).sum("flowgate_runtime_restarts_total")).toBe(0);

    const [child = 0] = await service.childPids();
    process.kill(child, "SIGKILL");
    await eventually(async () => {
      expect((await scrape(service.url, token)).sum("flowgate_runtime_restarts_total")).toBe(1);
    });
  });

  test("no label contains input of a client", () => {
    expect(secrets.length).toBeGreaterThan(10);
    const found = (words: readonly string[]): string[] => words.filter((word) => seen.text.includes(word));
    expect(found(secrets)).toEqual([]);
    expect(found([...secrets, "SetFlows"])).toEqual(["SetFlows"]);
    const labels = seen.samples.flatMap(({ labels }) => Object.entries(labels));
    for (const [, value] of labels) {
      expect(value).not.toMatch(/127\.0\.0\.1|admin|reader/);
    }
    const series = seen.samples.filter(({ name }) => name.startsWith("flowgate_") && !name.endsWith("_bucket"));
    expect(series.length).toBeLessThan(250);
  });

  test("docs/metrics.md has each metric with its type, labels and description", async () => {
    const page = await readFile(new URL("../../docs/metrics.md", import.meta.url), "utf8");
    const table = page
      .split("| name | type | labels | meaning |\n|---|---|---|---|\n")[1]
      ?.split("\n\n")[0]
      ?.split("\n");
    const rows = [...secured.types]
      .filter(([name]) => !/^(process|nodejs)_/.test(name))
      .map(([name, type]) => {
        const labels = labelsOf(seen.types.has(name) ? seen : secured, name).map((label) => `\`${label}\``);
        return `| \`${name}\` | ${type} | ${labels.join(", ")}${labels.length > 0 ? " " : ""}| ${secured.help.get(name)} |`;
      });
    expect(table?.toSorted()).toEqual(rows.toSorted());
    const others = [...page.matchAll(/`((?:process|nodejs)_[a-z0-9_]+)`/g)].map(([, name = ""]) => name);
    expect(others.filter((name) => !seen.types.has(name))).toEqual([]);
  });

  test("the dashboard uses existing metrics and labels", async () => {
    const file = await readFile(new URL("../../deploy/grafana/flowgate.json", import.meta.url), "utf8");
    const dashboard = JSON.parse(file) as Dashboard;
    expect(dashboard.schemaVersion).toBeGreaterThanOrEqual(36);
    expect(dashboard.templating.list.map(({ type }) => type)).toContain("datasource");
    const targets = dashboard.panels.flatMap(({ targets = [] }) => targets);
    expect(targets.length).toBeGreaterThan(15);
    for (const { expr, datasource } of targets) {
      expect(datasource.uid).toBe("${datasource}");
      expect(unknownIn(expr, seen)).toEqual([]);
    }
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length);
    // The check detects missing ones.
    expect(unknownIn("sum by (nothing) (rate(flowgate_request_total{nowhere='x'}[5m]))", seen)).toEqual([
      "flowgate_request_total",
      "nothing",
      "nowhere",
    ]);
    const alerts = await readFile(new URL("../../docs/metrics.md", import.meta.url), "utf8");
    for (const [, expr = ""] of alerts.matchAll(/^ {2}expr: (.*)$/gm)) {
      expect(unknownIn(expr, { ...secured, samples: [...seen.samples, ...secured.samples] })).toEqual([]);
    }
  });
});

const authority = createAuthority();
const issued = issueServer(authority);

/** Scrapes a service with TLS, after a client without TLS. */
/** Nothing is sent to it: no token is created. */
const webhooks = { targets: [{ url: "https://hooks.example/", kinds: ["token"] }] };

async function scrapeSecured(): Promise<Scrape> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-metrics-"));
  const tls = { certFile: join(directory, "tls.crt"), keyFile: join(directory, "tls.key") };
  try {
    await writeFile(tls.certFile, issued.cert);
    await writeFile(tls.keyFile, issued.key);
    await using service = await startService({
      config: { ...withoutRuntime, tls, metrics: { port: 0, nodes: true }, webhooks },
      tls: { ca: authority.cert },
    });
    const [, url = ""] = /Metrics, without authentication: (\S+)\/metrics/.exec(service.log()) ?? [];
    await expect(send(service.url.replace("https:", "http:"), "GET", "/flows")).rejects.toThrow(/hang up|ECONNRESET/);
    return await eventually(async () => {
      const scraped = await scrape(url);
      expect(scraped.sum("flowgate_tls_handshake_failures_total")).toBe(1);
      return scraped;
    });
  } finally {
    await rm(directory, { recursive: true });
  }
}

const of = (rpc: string, protocol: string, code: string) => ({ method: `flowgate.v1.${rpc}`, protocol, code });

describe("a call that is rejected by a guard counts for its RPC, over the HTTP API too", () => {
  test("by load shedding", async () => {
    await using service = await startService({ config: { ...withoutRuntime, limits: { inFlight: 1 } } });
    const others = { method: "other", code: "unavailable" };
    // These include /readyz until it was ready.
    const before = (await scrape(service.url)).sum("flowgate_requests_total", others);
    using busy = await openRaw(service.port);
    busy.write(
      "POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n[",
    );
    await eventually(async () => expect((await service.send("GET", "/settings")).status).toBe(503));
    expect((await service.send("HEAD", "/flows?query")).status).toBe(503);
    expect((await service.send("GET", "/nowhere")).status).toBe(503);
    await eventually(async () => {
      const seen = await scrape(service.url);
      const count = (labels: Record<string, string>): number => seen.sum("flowgate_requests_total", labels);
      expect(count(of("SettingsService/GetSettings", "rest", "unavailable"))).toBeGreaterThan(0);
      expect(count(of("FlowsService/GetFlows", "rest", "unavailable"))).toBe(1);
      expect(count(others)).toBe(before + 1);
      expect(seen.sum("flowgate_calls_shed_total", { reason: "in_flight" })).toBeGreaterThanOrEqual(3);
    });
  });
});

type Dashboard = {
  readonly schemaVersion: number;
  readonly templating: { readonly list: readonly { readonly type: string }[] };
  readonly panels: readonly {
    readonly id: number;
    readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[];
  }[];
};

function labelsOf({ samples }: Scrape, metric: string): readonly string[] {
  const own = samples.filter(({ name }) => name.replace(/_(bucket|sum|count)$/, "") === metric || name === metric);
  return Object.keys(own[0]?.labels ?? {}).filter((label) => label !== "le");
}

/** The metrics and labels in an expression that are missing in the scrape. */
function unknownIn(expr: string, seen: Scrape): string[] {
  const names = new Set([...seen.types.keys(), ...seen.samples.map(({ name }) => name)]);
  const labels = new Set(["instance", ...seen.samples.flatMap(({ labels }) => Object.keys(labels))]);
  const metrics = [...expr.matchAll(/\b(?:flowgate|nodejs|process)_[a-z0-9_]+/g)].map(([name]) => name);
  expect(metrics.length).toBeGreaterThan(0);
  const used = [
    ...[...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/,\s*/)),
    ...[...expr.matchAll(/[{,]\s*([a-z_]+)\s*(?:=~|!=|=)/g)].map(([, label = ""]) => label),
  ];
  return [...metrics.filter((name) => !names.has(name)), ...used.filter((label) => !labels.has(label))];
}

describe("access to metrics", () => {
  test("on a separate port, is open there, and closed on the other port", async () => {
    await using service = await startService({ config: { ...withoutRuntime, adminAuth, metrics: { port: 0 } } });
    const [, url = ""] =
      /Metrics, without authentication: (http:\/\/127\.0\.0\.1:\d+)\/metrics/.exec(service.log()) ?? [];
    expect((await scrape(url)).sum("flowgate_build_info")).toBe(1);
    const token = bearer(await login(service, {}));
    expect((await service.send("GET", "/metrics", { headers: token })).status).toBe(404);
    const own = (method: string, path: string) => fetch(`${url}${path}`, { method });
    expect((await own("GET", "/flows")).status).toBe(404);
    expect((await own("POST", "/metrics")).status).toBe(405);
    expect((await own("HEAD", "/metrics")).status).toBe(200);
    expect(await service.stop()).toBe(0);
  });

  test("is closed if metrics are disabled", async () => {
    await using service = await startService({ config: { ...withoutRuntime, metrics: { enabled: false } } });
    expect((await service.send("GET", "/metrics")).status).toBe(404);
    expect(await deploy(service, { flows: [tab("T")] }, "full", v2)).toBeTypeOf("string");
  });
});

describe("the metrics without adminAuth", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: withoutRuntime });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("calls that are rejected by their Host, or by their Origin, count for their RPC", async () => {
    expect((await service.send("GET", "/flows", { headers: { host: "evil.example" } })).status).toBe(421);
    expect((await service.send("POST", "/flows", { headers: { origin: "https://evil.example" } })).status).toBe(403);
    await eventually(async () => {
      const seen = await scrape(service.url);
      expect(seen.sum("flowgate_requests_total", of("FlowsService/GetFlows", "rest", "permission_denied"))).toBe(1);
      expect(seen.sum("flowgate_requests_total", of("FlowsService/SetFlows", "rest", "permission_denied"))).toBe(1);
    });
  });

  test("are open to all clients, read-only", async () => {
    const got = await service.send("GET", "/metrics?with=query");
    expect(got.status).toBe(200);
    expect(parseScrape(got.body).sum("flowgate_build_info")).toBe(1);
    const head = await service.send("HEAD", "/metrics");
    expect(head).toMatchObject({ status: 200, body: "" });
    expect(Number(head.headers["content-length"])).toBeGreaterThan(1000);
    const posted = await service.send("POST", "/metrics");
    expect(posted.status).toBe(405);
    expect(posted.headers.allow).toBe("GET, HEAD");
  });

  test("a deployment that the store can't commit is a server error", async () => {
    using other = new DatabaseSync(join(service.dataDir, "flowgate.db"), { timeout: 5_000 });
    other.exec("BEGIN IMMEDIATE");
    expect((await tryDeploy(service, { flows: [tab("T")] })).status).toBe(503);
    other.exec("ROLLBACK");
    await eventually(async () => {
      const seen = await scrape(service.url);
      expect(seen.sum("flowgate_deployments_total", { type: "full", outcome: "error" })).toBe(1);
      expect(seen.sum("flowgate_deployments_total", { outcome: "refused" })).toBe(0);
      expect(seen.sum("flowgate_store_duration_seconds_count", { operation: "flows.commit", outcome: "error" })).toBe(
        1,
      );
    });
  });

  test("a stream that its client cancels counts as canceled, in every protocol", async () => {
    for (const name of ["gRPC", "gRPC-Web", "Connect"] as const) {
      const giveUp = new AbortController();
      const { message } = await rpcProtocols[name](service.url).stream(
        Health.method.watch,
        giveUp.signal,
        undefined,
        undefined,
        (async function* () {
          yield create(HealthCheckRequestSchema);
        })(),
      );
      const iterator = message[Symbol.asyncIterator]();
      await iterator.next();
      // The stream, and the scrape.
      expect((await scrape(service.url)).sum("flowgate_requests_in_flight")).toBe(2);
      giveUp.abort();
      await expect(iterator.next()).rejects.toThrow(/aborted/);
      await eventually(async () => {
        const now = await scrape(service.url);
        const labels = { method: "grpc.health.v1.Health/Watch", protocol: name.toLowerCase(), code: "canceled" };
        expect(now.sum("flowgate_requests_total", labels)).toBe(1);
        expect(now.sum("flowgate_requests_in_flight")).toBe(1);
      });
    }
  });
});

describe("the metrics with adminAuth", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: { ...withoutRuntime, adminAuth } });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("are only for clients with metrics.read", async () => {
    const read = (headers: Record<string, string>, path = "/metrics") => service.send("GET", path, { headers });
    for (const username of ["admin", "reader", "scraper"]) {
      const reply = await read(
        bearer(await login(service, { username, scope: username === "scraper" ? "metrics.read" : "read" })),
      );
      expect(reply.status).toBe(200);
      expect(reply.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8");
    }
    const anonymous = await read({});
    expect(anonymous).toMatchObject({ status: 401, body: "" });
    expect(anonymous.headers["www-authenticate"]).toBe('Bearer realm="flowgate"');
    const bad = await read(bearer("b".repeat(43)));
    expect(bad).toMatchObject({ status: 401, body: "" });
    expect(bad.headers["www-authenticate"]).toContain('error="invalid_token"');
    const writer = bearer(await login(service, { username: "writer", scope: "flows.write" }));
    expect((await read(writer)).headers["www-authenticate"]).toContain('scope="metrics.read"');
    const admin = await login(service, {});
    expect(await read(bearer(admin), `/metrics?access_token=${admin}`)).toMatchObject({ status: 401, body: "" });
  });

  test("rejections by the RPC protocols have their codes", async () => {
    const outcome = await call(rpcProtocols.gRPC(service.url), AuthService.method.issueToken, {
      clientId: "service-admin",
      grantType: "password",
      scope: "*",
      username: "admin",
      password: "wrong",
    });
    expect(outcome).toMatchObject({ refused: { code: Code.Unauthenticated } });
    const token = bearer(await login(service, {}));
    await eventually(async () => {
      const labels = { method: "flowgate.v1.AuthService/IssueToken", protocol: "grpc", code: "unauthenticated" };
      expect((await scrape(service.url, token)).sum("flowgate_requests_total", labels)).toBe(1);
    });
  });
});
