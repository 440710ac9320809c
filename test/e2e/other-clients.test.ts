import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Health,
  HealthCheckRequestSchema,
  type HealthCheckResponse,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Status,
} from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { grpcioSteps, hasGrpcio, startGrpcio } from "./grpcio.ts";
import { isMissing, run } from "./program.ts";
import { bearer } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";

// Third-party clients that were not built with the .proto files of Flowgate.

// On a machine busy with other tests, calls would be shed.
const config = { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] }, limits: { eventLoopDelayMs: 0 } };
let service: Service;
let token: string;

beforeAll(async () => {
  service = await startService({ config });
  token = await login(service, {});
});
afterAll(() => service?.[Symbol.asyncDispose]());

describe("buf curl, by reflection", () => {
  const protocols = ["grpc", "connect", "grpcweb"];
  const bufCurl = (path: string, ...args: string[]) =>
    run("buf", "curl", "--http2-prior-knowledge", ...args, `${service.url}${path}`);
  const withToken = () => ["-H", `authorization: Bearer ${token}`, "--reflect-header", "*"];

  test("is rejected without a token", async () => {
    const { stdout, stderr } = await bufCurl("", "--list-services");
    expect(stdout).toBe("");
    expect(stderr).toContain("you are not authenticated");
  });

  test.each(["grpc-v1", "grpc-v1alpha"])("lists the services, by %s", async (version) => {
    const { stdout } = await bufCurl("", "--list-services", "--reflect-protocol", version, ...withToken());
    expect(stdout.trim().split("\n")).toEqual([
      "flowgate.v1.AuditService",
      "flowgate.v1.AuthService",
      "flowgate.v1.ContextService",
      "flowgate.v1.EventsService",
      "flowgate.v1.FlowsService",
      "flowgate.v1.LogsService",
      "flowgate.v1.ModulesService",
      "flowgate.v1.ProposalsService",
      "flowgate.v1.RevisionsService",
      "flowgate.v1.RuntimeService",
      "flowgate.v1.SettingsService",
      "flowgate.v1.TokensService",
      "grpc.health.v1.Health",
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
    ]);
  });

  test.each(protocols)("calls over %s", async (protocol) => {
    const call = async (rpc: string, data: string) =>
      JSON.parse((await bufCurl(`/${rpc}`, "--protocol", protocol, "--data", data, ...withToken())).stdout) as unknown;
    const node = { id: "t", type: "tab", label: `by buf over ${protocol}`, properties: { ä: [null, ""] } };
    const deployed = await call("flowgate.v1.FlowsService/SetFlows", JSON.stringify({ flows: [node] }));
    const [read, health] = await Promise.all([
      call("flowgate.v1.FlowsService/GetFlows", "{}"),
      call("grpc.health.v1.Health/Check", '{"service":"flowgate.v1.FlowsService"}'),
    ]);
    const { rev } = deployed as { rev: string };
    expect(read).toEqual({ flows: [node], rev });
    expect(health).toEqual({ status: "SERVING" });
  });
});

describe("@grpc/grpc-js", () => {
  const { check, watch } = Health.method;
  const pathOf = ({ name }: { name: string }) => `/${Health.typeName}/${name}`;
  const encode = (name: string) =>
    Buffer.from(toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, { service: name })));
  const decode = (bytes: Buffer) => fromBinary(HealthCheckResponseSchema, bytes);

  function open(): Client & Disposable {
    const client = new Client(`127.0.0.1:${service.port}`, credentials.createInsecure());
    return Object.assign(client, { [Symbol.dispose]: () => client.close() });
  }

  test("checks health, without a token", async () => {
    using client = open();
    const ask = (name: string) =>
      new Promise<Status | undefined>((resolve, reject) => {
        client.makeUnaryRequest(pathOf(check), encode, decode, name, (error, response) =>
          error === null ? resolve(response?.status) : reject(error),
        );
      });
    expect(await ask("")).toBe(Status.SERVING);
    expect(await ask("flowgate.v1.FlowsService")).toBe(Status.SERVING);
    await expect(ask("nothing")).rejects.toMatchObject({ code: status.NOT_FOUND });
  });

  test("watches health until it cancels", async () => {
    using client = open();
    const stream = client.makeServerStreamRequest(pathOf(watch), encode, decode, "");
    const [first] = (await once(stream, "data")) as [HealthCheckResponse];
    expect(first.status).toBe(Status.SERVING);
    const ended = once(stream, "error") as Promise<[ServiceError]>;
    stream.cancel();
    expect((await ended)[0].code).toBe(status.CANCELLED);
  });
});

describe.skipIf(isMissing("python3-grpcio", hasGrpcio))("grpcio of Python", () => {
  test("uses reflection, logs in, deploys, reads, is rejected, and watches the service until it stops", async () => {
    await using other = await startService({ config: { ...config, reflection: "open" } });
    const client = startGrpcio(`127.0.0.1:${other.port}`);
    await client.untilWatching();
    await other.stop();
    expect(await client.ended()).toEqual({ complaints: "", steps: grpcioSteps });
  });
});

describe.skipIf(isMissing("curl", existsSync("/usr/bin/curl")))("curl", () => {
  const curl = async (...args: string[]) =>
    (await run("curl", "-s", "-S", "-w", "\n%{http_version} %{http_code}", ...args)).stdout;
  const json = ["-H", "Content-Type: application/json"];

  test.each([
    ["--http1.1", "1.1"],
    ["--http2-prior-knowledge", "2"],
  ])("with %s makes the same call as REST and as Connect", async (flag, version) => {
    const own = [flag, "-H", `Authorization: Bearer ${token}`];
    const rest = await curl(...own, `${service.url}/settings`);
    const rpc = await curl(...own, ...json, "-d", "{}", `${service.url}/flowgate.v1.SettingsService/GetSettings`);
    expect(rest).toMatch(new RegExp(`"apiVersions".*\n${version} 200$`));
    const bodyOf = (output: string) => JSON.parse(output.split("\n")[0] ?? "") as Record<string, unknown>;
    expect(bodyOf(rpc)).toMatchObject({ apiVersions: bodyOf(rest)["apiVersions"], user: bodyOf(rest)["user"] });
  });

  test.each([
    ["--http1.1", "1.1"],
    ["--http2-prior-knowledge", "2"],
  ])("with %s checks health, without a token", async (flag, version) => {
    const check = (data: string) => curl(flag, ...json, "-d", data, `${service.url}/${Health.typeName}/Check`);
    expect(await check("{}")).toBe(`{"status":"SERVING"}\n${version} 200`);
    expect(await check('{"service":"nothing"}')).toMatch(new RegExp(`"code":"not_found".*\n${version} 404$`));
    expect(await curl(flag, `${service.url}/readyz`)).toBe(`{"status":"ready"}\n${version} 200`);
  });
});

describe.skipIf(isMissing("h2load of nghttp2-client", existsSync("/usr/bin/h2load")))("h2load", () => {
  const total = 2_000;
  let directory: string;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "flowgate-h2load-"));
    await writeFile(join(directory, "empty.json"), "{}");
    // An empty gRPC message.
    await writeFile(join(directory, "empty.grpc"), new Uint8Array(5));
  });
  afterAll(() => rm(directory, { recursive: true }));

  test.each<[string, string[], string]>([
    ["reads over REST", [], "/flows"],
    ["reads over REST with HTTP/1.1", ["--h1"], "/flows"],
    [
      "calls over Connect",
      ["-d", "empty.json", "-H", "content-type: application/json"],
      "/flowgate.v1.FlowsService/GetFlows",
    ],
    [
      "calls over gRPC",
      ["-d", "empty.grpc", "-H", "content-type: application/grpc", "-H", "te: trailers"],
      "/flowgate.v1.FlowsService/GetFlows",
    ],
    [
      "checks health over gRPC",
      ["-d", "empty.grpc", "-H", "content-type: application/grpc", "-H", "te: trailers"],
      "/grpc.health.v1.Health/Check",
    ],
  ])("%s some thousand times, each successfully", async (_, args, path) => {
    const { stdout } = await run(
      "h2load",
      `--requests=${total}`,
      "--clients=4",
      "--max-concurrent-streams=16",
      `--header=authorization: ${bearer(token).authorization}`,
      ...args.map((arg) => (arg.startsWith("empty.") ? join(directory, arg) : arg)),
      `${service.url}${path}`,
    );
    expect(stdout).toContain(`${total} succeeded, 0 failed, 0 errored, 0 timeout`);
    expect(stdout).toContain(`status codes: ${total} 2xx, 0 3xx, 0 4xx, 0 5xx`);
    // An error over gRPC has the status 200 too, but no data.
    expect(Number(/\((\d+)\) data$/m.exec(stdout)?.[1])).toBeGreaterThanOrEqual(2 * total);
  });
});
