import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type DeploymentType, FlowsService, SetFlowsRequestSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { Health, HealthCheckRequestSchema } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { type CollectedSpan, openCollector, type Collector } from "../telemetry/collector.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { bearer } from "./rest.ts";
import { login, passwordOf, user } from "./users.ts";

const setFlows = "flowgate.v1.FlowsService/SetFlows";

/** Trace headers of a caller; each `nth` has its own trace. */
function caller(nth: number, flags = "01") {
  const traceId = nth.toString(16).padStart(32, "a");
  const spanId = nth.toString(16).padStart(16, "b");
  return { traceId, spanId, headers: { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: "vendor=some" } };
}

/** The log of a service: one object per line. */
function linesOf(service: Service): Record<string, unknown>[] {
  return service
    .log()
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** The spans of a trace as a tree of names, with the parent of the root. */
function treeOf(spans: readonly CollectedSpan[], parentSpanId: string): unknown {
  return spans
    .filter((span) => span.parentSpanId === parentSpanId)
    .toSorted((one, other) => Number(one.startNs - other.startNs))
    .map(({ name, spanId }) => {
      const children = treeOf(spans, spanId) as unknown[];
      return children.length === 0 ? name : [name, children];
    });
}

/** The logged numbers of lost spans. */
const lostIn = (service: Service): Record<string, unknown>[] =>
  linesOf(service).filter(({ msg }) => msg === "spans could not be exported (tracing.endpoint)");

const deployed = [[setFlows, ["store.commit", ["runtime.apply", ["runtime.start"]]]]];

describe("with a collector", () => {
  let collector: Collector;
  let service: Service;
  const calls = new Map(["REST", ...rpcProtocolNames].map((name, at) => [name, caller(at + 1)]));
  const refused = caller(20);
  const unauthenticated = caller(21);
  const unsampled = caller(22, "00");
  const missing = caller(23);
  const reloaded = caller(24);
  const failed = caller(25);
  const ofTrace = ({ traceId }: { traceId: string }) => collector.spans.filter((span) => span.traceId === traceId);

  beforeAll(async () => {
    collector = await openCollector();
    service = await startService({
      config: {
        log: { level: "debug" },
        // A new process has a span of its own.
        runtime: { freshProcess: "never" },
        adminAuth: { users: [user("admin", "*")] },
        tracing: {
          endpoint: collector.endpoint,
          headers: { authorization: "Bearer of-the-collector" },
          serviceName: "gate",
        },
      },
      env: { OTEL_RESOURCE_ATTRIBUTES: "k8s.pod.name=gate-0,service.name=other" },
    });
    const token = bearer(await login(service, {}));
    const flows = [tab("T"), functionNode("f", { z: "T", initialize: `node.warn("started")` })];
    for (const [name, { headers }] of calls) {
      if (name === "REST") {
        await deploy(service, { flows }, "full", { ...token, ...headers });
      } else {
        const request = create(SetFlowsRequestSchema, { flows: [{ id: "T", type: "tab" }] });
        await call(rpcProtocols[name as "gRPC"](service.url), FlowsService.method.setFlows, request, {
          ...token,
          ...headers,
        });
      }
    }
    await tryDeploy(service, { flows, rev: "nonsense" }, "full", { ...token, ...refused.headers });
    await service.send("GET", "/flows", { headers: unauthenticated.headers });
    await deploy(service, { flows }, "full", { ...token, ...unsampled.headers });
    const nowhere = [tab("T"), { id: "m", type: "nowhere", z: "T", x: 1, y: 1 }];
    await deploy(service, { flows: nowhere }, "nodes", { ...token, ...missing.headers });
    // A new process looks for missing modules.
    await deploy(service, { flows: [] }, "reload", { ...token, ...reloaded.headers });
    // An unknown deployment type is a client error.
    await call(
      rpcProtocols.gRPC(service.url),
      FlowsService.method.setFlows,
      create(SetFlowsRequestSchema, { deploymentType: 77 as DeploymentType }),
      { ...token, ...failed.headers },
    );
    await service.send("GET", "/settings", {
      headers: { ...token, traceparent: `00-${"0".repeat(32)}-${"0".repeat(16)}-01` },
    });
    // Shutdown sends the buffered spans.
    await service.stop();
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await collector?.[Symbol.asyncDispose]();
  });

  test.each([...calls.keys()])(
    "a deployment over %s is one trace, from the request to the commit to the runtime's start",
    (name) => {
      const from = calls.get(name) ?? caller(0);
      expect(treeOf(ofTrace(from), from.spanId)).toEqual(deployed);
      const [server] = ofTrace(from).filter(({ kind }) => kind === 2);
      expect(server).toMatchObject({ name: setFlows, status: 0, traceState: "vendor=some" });
      expect(server?.attributes).toMatchObject({ "rpc.service": "flowgate.v1.FlowsService", "rpc.method": "SetFlows" });
      for (const { startNs, endNs } of ofTrace(from)) {
        expect(startNs).toBeGreaterThanOrEqual(server?.startNs ?? 0n);
        expect(endNs).toBeGreaterThanOrEqual(startNs);
        expect(endNs).toBeLessThanOrEqual(server?.endNs ?? 0n);
      }
    },
  );

  test("the server's span describes the protocol by the conventions", () => {
    const attributesOf = (name: string) =>
      ofTrace(calls.get(name) ?? caller(0)).find(({ kind }) => kind === 2)?.attributes;
    expect(attributesOf("REST")).toEqual({
      "rpc.service": "flowgate.v1.FlowsService",
      "rpc.method": "SetFlows",
      "http.request.method": "POST",
      "http.route": "/flows",
      "url.path": "/flows",
      "http.response.status_code": 200,
    });
    expect(attributesOf("gRPC")).toMatchObject({ "rpc.system": "grpc", "rpc.grpc.status_code": 0 });
    expect(attributesOf("gRPC-Web")).toMatchObject({ "rpc.system": "grpc", "rpc.grpc.status_code": 0 });
    expect(attributesOf("Connect")).toMatchObject({ "rpc.system": "connect_rpc", "http.response.status_code": 200 });
  });

  test("a deployment that lost a race has the failed span, which is not a server error", () => {
    expect(treeOf(ofTrace(refused), refused.spanId)).toEqual([[setFlows, ["store.commit"]]]);
    const [server, commit] = ["POST", undefined].map((method) =>
      ofTrace(refused).find(({ attributes }) => attributes["http.request.method"] === method),
    );
    expect(server).toMatchObject({ status: 0, attributes: { "http.response.status_code": 409 } });
    expect(commit).toMatchObject({ status: 2, attributes: { "error.type": "version_mismatch" } });
  });

  test("a call that the gate rejects is traced too", () => {
    expect(ofTrace(unauthenticated)).toMatchObject([
      { name: "flowgate.v1.FlowsService/GetFlows", attributes: { "http.response.status_code": 401 } },
    ]);
  });

  test("a rejected gRPC call has its code", () => {
    expect(ofTrace(failed)).toMatchObject([{ status: 0, attributes: { "rpc.grpc.status_code": 3 } }]);
  });

  test("traces that the caller does not record are not recorded", () => {
    expect(ofTrace(unsampled)).toEqual([]);
  });

  test("flows that the runtime can't start have a failed span", () => {
    expect(treeOf(ofTrace(missing), missing.spanId)).toEqual(deployed);
    const named = (name: string) => ofTrace(missing).find((span) => span.name === name);
    expect(named("runtime.start")).toMatchObject({ status: 2, attributes: { "error.type": "failed" } });
    expect(named("runtime.apply")?.attributes).toMatchObject({
      "flowgate.deployment.type": "nodes",
      "flowgate.deployment.outcome": "not_running",
    });
  });

  test("the start of a process is part of the trace", () => {
    expect(treeOf(ofTrace(reloaded), reloaded.spanId)).toEqual([
      [setFlows, ["store.reload", ["runtime.apply", ["runtime.boot", "runtime.start"]]]],
    ]);
  });

  test("invalid trace headers begin a new trace", () => {
    const roots = collector.spans.filter(({ name }) => name === "flowgate.v1.SettingsService/GetSettings");
    expect(roots.filter(({ attributes }) => attributes["http.request.method"] === "GET").at(-1)?.parentSpanId).toBe("");
  });

  test("log lines have the ids of the spans", () => {
    const from = calls.get("REST") ?? caller(0);
    const [server] = ofTrace(from).filter(({ kind }) => kind === 2);
    const [apply] = ofTrace(from).filter(({ name }) => name === "runtime.apply");
    const [start] = ofTrace(from).filter(({ name }) => name === "runtime.start");
    const lines = linesOf(service).filter((line) => line["trace_id"] === from.traceId);
    const spanOf = (message: string) => lines.find(({ msg }) => msg === message)?.["span_id"];
    expect(spanOf("deployed")).toBe(server?.spanId);
    expect(spanOf("request completed")).toBe(server?.spanId);
    expect(spanOf("the flow runtime is running")).toBe(apply?.spanId);
    // The log of a flow while it starts.
    expect(spanOf("started")).toBe(start?.spanId);
  });

  test("the resource has the service and the attributes of the environment", () => {
    expect(collector.spans[0]?.resource).toMatchObject({
      "service.name": "gate",
      "service.version": "0.2.0",
      "k8s.pod.name": "gate-0",
    });
  });

  test("no span contains a secret, and the log none of the collector", () => {
    const sent = Buffer.concat(collector.requests.map(({ bytes }) => bytes)).toString("latin1");
    expect(sent).toContain("flowgate.v1.AuthService/IssueToken");
    for (const secret of [passwordOf("admin"), "admin", "Bearer", "127.0.0.1"]) {
      expect(sent).not.toContain(secret);
    }
    expect(collector.requests[0]).toMatchObject({
      path: "/v1/traces",
      headers: { authorization: "Bearer of-the-collector" },
    });
    expect(service.log()).not.toContain("of-the-collector");
  });
});

describe("without a collector", () => {
  test("the SDK is not loaded, but the log has the caller's ids", async () => {
    const watch = `import { registerHooks } from "node:module";
      registerHooks({ load(url, context, next) {
        const loaded = next(url, context);
        // The build has the paths of the modules in comments.
        for (const path of Buffer.from(loaded.source ?? "").toString().match(/(?<=^\\/\\/ )\\S+$/gm) ?? []) {
          if (/@opentelemetry|telemetry.exporter/.test(path)) process.stderr.write("loaded " + path + "\\n");
        }
        return loaded;
      } });`;
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(watch)}` };
    const loaded = async (config: object) => {
      await using service = await startService({
        config: { ...withoutRuntime, log: { level: "debug" }, ...config },
        env,
      });
      const from = caller(1);
      await deploy(service, { flows: [tab("T")] }, "full", from.headers);
      await service.send("GET", "/nowhere", { headers: from.headers });
      await service.send("GET", "/settings");
      expect(await service.stop()).toBe(0);
      const packages = [...service.log().matchAll(/^loaded \S*?(@opentelemetry\/[a-z-]+|telemetry\/exporter)/gm)];
      return { service, from, packages: [...new Set(packages.map(([, name]) => name))] };
    };

    const { service, from, packages } = await loaded({});
    expect(packages).toEqual(["@opentelemetry/api"]);
    const ids = { trace_id: from.traceId, span_id: from.spanId };
    const lines = linesOf(service);
    expect(lines.find(({ msg }) => msg === "deployed")).toMatchObject(ids);
    expect(lines.find(({ msg, path }) => msg === "request completed" && path === "/nowhere")).toMatchObject(ids);
    expect(lines.find(({ msg, path }) => msg === "request completed" && path === "/settings")).not.toHaveProperty(
      "trace_id",
    );

    // With a collector, it is loaded.
    await using collector = await openCollector();
    expect((await loaded({ tracing: { endpoint: collector.endpoint } })).packages).toContain(
      "@opentelemetry/sdk-trace",
    );
  });

  test("a collector that never responds delays neither a request nor the shutdown", async () => {
    await using collector = await openCollector(() => {});
    // The exporter's own timeout would be an hour.
    const env = { OTEL_EXPORTER_OTLP_TIMEOUT: "3600000" };
    await using service = await startService({ config: { tracing: { endpoint: collector.endpoint } }, env });
    await deploy(service, { flows: [tab("T")] });
    expect(await service.stop()).toBe(0);
    expect(collector.requests.length).toBeGreaterThan(0);
    expect(lostIn(service)).toMatchObject([{ lost: 4, cause: "the collector did not respond in time" }]);
  });

  test("a collector that refuses connections delays neither, and the log has the number of lost spans", async () => {
    const collector = await openCollector();
    await collector[Symbol.asyncDispose]();
    // The exporter itself would retry for an hour.
    const env = { OTEL_EXPORTER_OTLP_TIMEOUT: "3600000" };
    await using service = await startService({ config: { tracing: { endpoint: collector.endpoint } }, env });
    await deploy(service, { flows: [tab("T")] });
    expect(await service.stop()).toBe(0);
    expect(lostIn(service)).toMatchObject([{ level: "warn", lost: 4 }]);
  });

  test("health checks are not traced, in any protocol", async () => {
    await using collector = await openCollector();
    const config = { ...withoutRuntime, tracing: { endpoint: collector.endpoint } };
    await using service = await startService({ config });
    for (const name of rpcProtocolNames) {
      const protocol = rpcProtocols[name](service.url);
      expect(await call(protocol, Health.method.check, create(HealthCheckRequestSchema))).toHaveProperty(
        "message.status",
        1,
      );
    }
    await service.send("GET", "/healthz");
    await service.send("GET", "/settings");
    await service.stop();
    expect(collector.spans.map(({ name }) => name)).toEqual(["flowgate.v1.SettingsService/GetSettings"]);
  });
});
