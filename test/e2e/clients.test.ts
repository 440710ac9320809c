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
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { SettingsService } from "../../gen/flowgate/v1/settings_pb.ts";
import { bearer } from "./rest.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, tokenParameters, user } from "./users.ts";

// Third-party clients.

let service: Service;
let token: string;

beforeAll(async () => {
  service = await startService({
    config: { ...withoutRuntime, adminAuth: { users: [user("admin", "*")] }, limits: { bodyBytes: 100_000 } },
  });
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
});

describe("buf curl", () => {
  const proto = fileURLToPath(new URL("../../proto", import.meta.url));

  async function bufCurl(protocol: string, rpc: string, data: string, ...args: string[]) {
    const child = spawn(
      "buf",
      [
        "curl",
        "--schema",
        proto,
        "--protocol",
        protocol,
        "--http2-prior-knowledge",
        "--data",
        data,
        ...args,
        `${service.url}/${rpc}`,
      ],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return stdout === ""
      ? { error: JSON.parse(stderr) as { code: string; message: string } }
      : { response: JSON.parse(stdout) as unknown };
  }

  test.each(["grpc", "connect", "grpcweb"])("over %s", async (protocol) => {
    const own = ["-H", `authorization: Bearer ${token}`];
    const node = { id: "t", type: "tab", label: `by buf over ${protocol}`, properties: { ä: [null, ""] } };
    const [scheme, deployed, nobody] = await Promise.all([
      bufCurl(protocol, "flowgate.v1.AuthService/GetLogin", "{}"),
      bufCurl(protocol, "flowgate.v1.FlowsService/SetFlows", JSON.stringify({ flows: [node] }), ...own),
      bufCurl(protocol, "flowgate.v1.FlowsService/GetFlows", "{}"),
    ]);
    expect(scheme).toMatchObject({ response: { type: "credentials" } });
    expect(nobody).toMatchObject({ error: { code: "unauthenticated" } });
    const { rev } = (deployed as { response: { rev: string } }).response;
    const [read, stale] = await Promise.all([
      bufCurl(protocol, "flowgate.v1.FlowsService/GetFlows", "{}", ...own),
      bufCurl(protocol, "flowgate.v1.FlowsService/SetFlows", '{"rev":"stale"}', ...own),
    ]);
    expect(read).toEqual({ response: { flows: [node], rev } });
    expect(stale).toMatchObject({ error: { code: "aborted", message: expect.stringContaining(rev) } });
  });
});

describe("Connect over GET", () => {
  test("reads, with the requested compression", async () => {
    const path = "/flowgate.v1.AuthService/GetLogin?connect=v1&encoding=json&message=%7B%7D";
    const plain = await service.send("GET", path);
    expect([plain.status, plain.json()]).toMatchObject([200, { type: "credentials" }]);
    const reply = await fetch(
      `${service.url}/flowgate.v1.FlowsService/GetFlows?connect=v1&encoding=json&message=%7B%7D`,
      {
        headers: { ...bearer(token), "accept-encoding": "gzip" },
      },
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

describe("curl", () => {
  async function curl(...args: string[]) {
    const child = spawn("curl", ["-s", "-S", "-w", "\n%{http_version} %{http_code}", ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    return text(child.stdout);
  }

  test.each([
    ["--http1.1", "1.1"],
    ["--http2-prior-knowledge", "2"],
    // The upgrade is ignored, and the request is served over HTTP/1.1.
    ["--http2", "1.1"],
  ])("with %s", async (flag, version) => {
    const own = ["-H", `Authorization: Bearer ${token}`];
    expect(await curl(flag, ...own, "-d", "[]", "-H", "Content-Type: application/json", `${service.url}/flows`)).toBe(
      `\n${version} 204`,
    );
    expect(await curl(flag, ...own, `${service.url}/flows`)).toBe(`[]\n${version} 200`);
    expect(await curl(flag, `${service.url}/flows`)).toBe(`\n${version} 401`);
    // So large that curl sends Expect: 100-continue.
    const large = ["-H", "Expect: 100-continue", "--data-binary", `"${"x".repeat(90_000)}"`];
    expect(await curl(flag, ...own, ...large, "-H", "Content-Type: application/json", `${service.url}/flows`)).toMatch(
      new RegExp(`invalid_flows.*\n${version} 400$`),
    );
  });
});
