import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create, type DescMethodUnary, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  Client,
  type ClientOptions,
  compressionAlgorithms,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { grpcioSteps, hasGrpcio, startGrpcio } from "./grpcio.ts";
import { isMissing, run } from "./program.ts";
import { bearer } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

// Third-party clients.

const config = {
  ...withoutRuntime,
  adminAuth: { users: [user("admin", "*")] },
  // On a machine busy with other tests, calls would be shed.
  limits: { bodyBytes: 100_000, eventLoopDelayMs: 0 },
};
let service: Service;
let token: string;

beforeAll(async () => {
  service = await startService({ config });
  token = await login(service, {});
});
afterAll(() => service?.[Symbol.asyncDispose]());

describe("@grpc/grpc-js", () => {
  function open(options: ClientOptions = {}): Client & Disposable {
    const client = new Client(`127.0.0.1:${service.port}`, credentials.createInsecure(), options);
    return Object.assign(client, { [Symbol.dispose]: () => client.close() });
  }

  type Answer<M extends DescMethodUnary> = {
    error: ServiceError | null;
    message: MessageShape<M["output"]> | undefined;
  };

  function call<M extends DescMethodUnary>(
    client: Client,
    method: M,
    input: Parameters<typeof create<M["input"]>>[1],
    headers: Record<string, string> = bearer(token),
  ): Promise<Answer<M>> {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(headers)) {
      metadata.set(name, value);
    }
    return new Promise((resolve) => {
      client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: MessageShape<M["input"]>) => Buffer.from(toBinary(method.input, message)),
        (bytes: Buffer) => fromBinary(method.output, bytes) as MessageShape<M["output"]>,
        create(method.input, input) as MessageShape<M["input"]>,
        metadata,
        (error, message) => resolve({ error, message }),
      );
    });
  }

  test("makes every call", async () => {
    using client = open();
    expect((await call(client, AuthService.method.getLogin, {}, {})).message?.type).toBe("credentials");
    const { client_id: clientId, grant_type: grantType, ...others } = tokenParameters();
    const issued = await call(client, AuthService.method.issueToken, { ...others, clientId, grantType }, {});
    expect(issued.message?.accessToken).toMatch(/^[\w-]{43}$/);
    const own = bearer(issued.message?.accessToken ?? "");
    const flows = [
      { id: "t", type: "tab", label: "by grpc-js", properties: { info: null, env: [{ deep: [1, "é"] }] } },
    ];
    const deployed = await call(client, FlowsService.method.setFlows, { flows }, own);
    const read = await call(client, FlowsService.method.getFlows, {}, own);
    expect(read.message).toMatchObject({ flows, rev: deployed.message?.rev });
    expect((await call(client, SettingsService.method.getSettings, {}, own)).message?.apiVersions).toEqual([
      "v1",
      "v2",
    ]);
    expect(
      (await call(client, AuthService.method.revokeToken, { token: issued.message?.accessToken ?? "" })).error,
    ).toBeNull();
    expect((await call(client, FlowsService.method.getFlows, {}, own)).error?.code).toBe(status.UNAUTHENTICATED);
  });

  test("gets the reason of a rejection", async () => {
    using client = open();
    const nobody = await call(client, FlowsService.method.getFlows, {}, {});
    expect(nobody.error).toMatchObject({ code: status.UNAUTHENTICATED });
    expect(nobody.error?.metadata.get("www-authenticate")).toEqual(['Bearer realm="flowgate"']);
    const stale = await call(client, FlowsService.method.setFlows, { flows: [], rev: "stale" });
    expect(stale.error).toMatchObject({ code: status.ABORTED, details: expect.stringContaining("active") });
    expect(stale.error?.metadata.get("grpc-status-details-bin")).toHaveLength(1);
    const invalid = await call(client, FlowsService.method.setFlows, { flows: [{ id: "é", type: "" }] });
    expect(invalid.error).toMatchObject({ code: status.INVALID_ARGUMENT, details: "flows[0].type: must not be empty" });
    const large = await call(client, FlowsService.method.setFlows, { flows: [{ id: "a", type: "x".repeat(100_001) }] });
    expect(large.error).toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  });

  test("gets an error whose path is not ASCII", async () => {
    using client = open();
    const flows = [{ id: "a", type: "b", credentials: { values: { "naïve\n\0 \ud83d\ude00": "\ud800" } } }];
    const { error } = await call(client, FlowsService.method.setFlows, { flows });
    expect(error?.code).not.toBe(status.INTERNAL);
  });

  test("gets UNIMPLEMENTED for an unknown RPC", async () => {
    using client = open();
    const error = await new Promise<ServiceError | null>((resolve) => {
      const pass = (bytes: Buffer) => bytes;
      client.makeUnaryRequest("/flowgate.v1.FlowsService/Nothing", pass, pass, Buffer.alloc(0), (error) =>
        resolve(error),
      );
    });
    expect(error?.code).toBe(status.UNIMPLEMENTED);
  });

  test("compresses", async () => {
    using client = open({ "grpc.default_compression_algorithm": compressionAlgorithms.gzip });
    const flows = [{ id: "t", type: "tab", label: "x".repeat(50_000) }];
    expect((await call(client, FlowsService.method.setFlows, { flows })).error).toBeNull();
    expect((await call(client, FlowsService.method.getFlows, {})).message).toMatchObject({ flows });
  });

  test("makes 200 concurrent calls over one connection", async () => {
    using client = open();
    const responses = await Promise.all(
      Array.from({ length: 200 }, () => call(client, SettingsService.method.getSettings, {})),
    );
    expect(responses.filter(({ error }) => error !== null)).toEqual([]);
  });

  test("checks health, without a token", async () => {
    using client = open();
    const ask = async (name: string) => await call(client, Health.method.check, { service: name }, {});
    expect((await ask("")).message?.status).toBe(Status.SERVING);
    expect((await ask("flowgate.v1.FlowsService")).message?.status).toBe(Status.SERVING);
    expect((await ask("nothing")).error?.code).toBe(status.NOT_FOUND);
  });

  test("watches health until it cancels", async () => {
    using client = open();
    const { input, output, name } = Health.method.watch;
    const stream = client.makeServerStreamRequest(
      `/${Health.typeName}/${name}`,
      () => Buffer.from(toBinary(input, create(input))),
      (bytes: Buffer) => fromBinary(output, bytes),
      undefined,
    );
    const [first] = (await once(stream, "data")) as [MessageShape<typeof output>];
    expect(first.status).toBe(Status.SERVING);
    const ended = once(stream, "error") as Promise<[ServiceError]>;
    stream.cancel();
    expect((await ended)[0].code).toBe(status.CANCELLED);
  });
});

describe("buf curl, by reflection", () => {
  const bufCurl = (path: string, ...args: string[]) =>
    run("buf", "curl", "--http2-prior-knowledge", ...args, `${service.url}${path}`);
  const withToken = () => ["-H", `authorization: Bearer ${token}`, "--reflect-header", "*"];

  test("is rejected without a token", async () => {
    const { stdout, stderr } = await bufCurl("", "--list-services");
    expect(stdout).toBe("");
    expect(stderr).toContain("you are not authenticated");
  });

  test("lists the services", async () => {
    const { stdout } = await bufCurl("", "--list-services", ...withToken());
    expect(stdout.trim().split("\n")).toEqual([
      "flowgate.v1.AuditService",
      "flowgate.v1.AuthService",
      "flowgate.v1.ContextService",
      "flowgate.v1.EventsService",
      "flowgate.v1.FlowsService",
      "flowgate.v1.LibraryService",
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

  test("checks health", async () => {
    const { stdout } = await bufCurl(`/${Health.typeName}/Check`, "--data", "{}", ...withToken());
    expect(JSON.parse(stdout)).toEqual({ status: "SERVING" });
  });

  test.each(["grpc", "connect", "grpcweb"])("calls over %s", async (protocol) => {
    const call = async (rpc: string, data: string) => {
      const path = `/flowgate.v1.FlowsService/${rpc}`;
      const { stdout, stderr } = await bufCurl(path, "--protocol", protocol, "--data", data, ...withToken());
      return JSON.parse(stdout === "" ? stderr : stdout) as Record<string, unknown>;
    };
    const node = { id: "t", type: "tab", label: `by buf over ${protocol}`, properties: { ä: [null, ""] } };
    const { rev } = await call("SetFlows", JSON.stringify({ flows: [node] }));
    const [read, stale] = await Promise.all([call("GetFlows", "{}"), call("SetFlows", '{"rev":"stale"}')]);
    expect(read).toEqual({ flows: [node], rev });
    expect(stale).toMatchObject({ code: "aborted", message: expect.stringContaining(String(rev)) });
  });
});

describe("Connect over GET", () => {
  test("reads, with the requested compression", async () => {
    const path = "/flowgate.v1.AuthService/GetLogin?connect=v1&encoding=json&message=%7B%7D";
    const plain = await service.send("GET", path);
    expect([plain.status, plain.json()]).toMatchObject([200, { type: "credentials" }]);
    const reply = await fetch(
      `${service.url}/flowgate.v1.FlowsService/GetFlows?connect=v1&encoding=json&message=%7B%7D`,
      { headers: { ...bearer(token), "accept-encoding": "gzip" } },
    );
    expect(reply.status).toBe(200);
    expect(await reply.json()).toHaveProperty("rev");
  });

  test("is rejected without a token, and with one in the query", async () => {
    const path = "/flowgate.v1.FlowsService/GetFlows?connect=v1&encoding=json&message=%7B%7D";
    for (const [query, headers] of [
      ["", {}],
      [`&access_token=${token}`, {}],
      [`&access_token=${token}`, bearer(token)],
    ] as const) {
      const reply = await service.send("GET", path + query, { headers });
      expect([reply.status, reply.json()]).toMatchObject([401, { code: "unauthenticated" }]);
    }
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
  test.each([
    ["--http1.1", "1.1"],
    ["--http2-prior-knowledge", "2"],
    // The upgrade is ignored, and the request is served over HTTP/1.1.
    ["--http2", "1.1"],
  ])("with %s", async (flag, version) => {
    const curl = async (path: string, ...args: string[]) => {
      const output = ["-s", "-S", "-w", "\n%{http_version} %{http_code}"];
      return (await run("curl", ...output, flag, ...args, `${service.url}${path}`)).stdout;
    };
    const json = ["-H", "Content-Type: application/json"];
    const own = ["-H", `Authorization: Bearer ${token}`];
    expect(await curl("/flows", ...own, ...json, "-d", "[]")).toBe(`\n${version} 204`);
    expect(await curl("/flows", ...own)).toBe(`[]\n${version} 200`);
    expect(await curl("/flows")).toBe(`\n${version} 401`);
    // So large that curl sends Expect: 100-continue.
    const large = ["-H", "Expect: 100-continue", "--data-binary", `"${"x".repeat(90_000)}"`];
    expect(await curl("/flows", ...own, ...json, ...large)).toMatch(new RegExp(`invalid_flows.*\n${version} 400$`));

    const rest = await curl("/settings", ...own);
    const rpc = await curl(`/${SettingsService.typeName}/GetSettings`, ...own, ...json, "-d", "{}");
    expect(rest).toMatch(new RegExp(`"apiVersions".*\n${version} 200$`));
    const bodyOf = (output: string) => JSON.parse(output.split("\n")[0] ?? "") as Record<string, unknown>;
    expect(bodyOf(rpc)).toMatchObject({ apiVersions: bodyOf(rest)["apiVersions"], user: bodyOf(rest)["user"] });

    const check = (data: string) => curl(`/${Health.typeName}/Check`, ...json, "-d", data);
    expect(await check("{}")).toBe(`{"status":"SERVING"}\n${version} 200`);
    expect(await check('{"service":"nothing"}')).toMatch(new RegExp(`"code":"not_found".*\n${version} 404$`));
  });
});

describe.skipIf(isMissing("h2load of nghttp2-client", existsSync("/usr/bin/h2load")))("h2load", () => {
  const total = 500;
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
  ])("%s some hundred times, each successfully", async (_, args, path) => {
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
