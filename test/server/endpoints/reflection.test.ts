import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createFileRegistry,
  createRegistry,
  type DescFile,
  equals,
  fromBinary,
  getOption,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { access } from "../../../gen/flowgate/v1/access_pb.ts";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";
import { http } from "@flowgate/gateway/gen/google/api/annotations_pb.js";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import {
  ServerReflection as ReflectionV1,
  type ServerReflectionRequestSchema,
  type ServerReflectionResponse,
} from "@flowgate/gateway/gen/grpc/reflection/v1/reflection_pb.js";
import { ServerReflection as ReflectionV1Alpha } from "@flowgate/gateway/gen/grpc/reflection/v1alpha/reflection_pb.js";
import { ThingsService } from "../../../packages/gateway/test/gen/gatewaytest/v1/things_pb.ts";
import { openFlowgate } from "../../../src/app/flowgate.ts";
import { type OptionsInput, parseOptions } from "../../../src/options/parse.ts";
import { openServer } from "../../../src/server/open-server.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { eventually } from "../../e2e/service.ts";
import { passwordOf, user } from "../../e2e/users.ts";

const transports: [string, (baseUrl: string) => Transport][] = [
  ["gRPC", (baseUrl) => createGrpcTransport({ baseUrl })],
  ["Connect over HTTP/2", (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2" })],
  [
    "Connect with JSON over HTTP/2",
    (baseUrl) => createConnectTransport({ baseUrl, httpVersion: "2", useBinaryFormat: false }),
  ],
  ["gRPC-Web over HTTP/2", (baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "2" })],
];
const versions = [
  ["v1", ReflectionV1],
  // Both versions have the same messages.
  ["v1alpha", ReflectionV1Alpha as unknown as typeof ReflectionV1],
] as const;

async function open(reflection?: boolean, level: "info" | "debug" = "info") {
  const lines: unknown[] = [];
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level, destination: { write: (line: string) => void lines.push(JSON.parse(line)) } }),
    routes: (router) => void router.service(FlowsService, {}).service(AuthService, {}).service(ThingsService, {}),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 * 1024 },
    ...(reflection === undefined ? {} : { reflection }),
  });
  return Object.assign(server, { lines });
}

type Question = MessageInitShape<typeof ServerReflectionRequestSchema>["messageRequest"] & {};

/** One reflection stream; requests are sent one by one. */
function openStream(
  transport: Transport,
  version: typeof ReflectionV1 = ReflectionV1,
  headers: Record<string, string> = {},
) {
  const left = new AbortController();
  let ask = Promise.withResolvers<Question | undefined>();
  async function* requests() {
    for (let question = await ask.promise; question !== undefined; question = await ask.promise) {
      ask = Promise.withResolvers();
      yield { host: "the.host", messageRequest: question };
    }
  }
  const client = createClient(version, transport);
  const responses = client.serverReflectionInfo(requests(), { signal: left.signal, headers })[Symbol.asyncIterator]();
  return {
    async ask(question: Question): Promise<ServerReflectionResponse> {
      ask.resolve(question);
      const { value } = await responses.next();
      return value as ServerReflectionResponse;
    },
    /** Waits for a response, without a request. */
    next: () => responses.next(),
    async end(): Promise<void> {
      ask.resolve(undefined);
      expect((await responses.next()).done).toBe(true);
    },
    [Symbol.dispose]: () => left.abort(),
  };
}

function filesOf({ messageResponse }: ServerReflectionResponse) {
  if (messageResponse.case !== "fileDescriptorResponse") {
    throw new Error(`the response has no files but ${JSON.stringify(messageResponse)}`);
  }
  return messageResponse.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
}

const namesOf = (httpResponse: ServerReflectionResponse): string[] => filesOf(httpResponse).map(({ name }) => name);

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return ConnectError.from(
    await call.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    ),
  );
}

describe.each(transports)("reflection over %s", (_, transport) => {
  test.each(versions)("%s lists the services, itself and health among them", async (_, version) => {
    await using server = await open(true);
    const stream = openStream(transport(server.url), version);
    const { messageResponse } = await stream.ask({ case: "listServices", value: "" });
    expect(messageResponse).toMatchObject({
      case: "listServicesResponse",
      value: {
        service: [
          { name: "flowgate.v1.AuthService" },
          { name: "flowgate.v1.FlowsService" },
          { name: "gatewaytest.v1.ThingsService" },
          { name: "grpc.health.v1.Health" },
          { name: "grpc.reflection.v1.ServerReflection" },
          { name: "grpc.reflection.v1alpha.ServerReflection" },
        ],
      },
    });
    await stream.end();
  });

  test.each(versions)("%s returns usable files with their options", async (_, version) => {
    await using server = await open(true);
    const stream = openStream(transport(server.url), version);
    const file = filesOf(await stream.ask({ case: "fileContainingSymbol", value: "flowgate.v1.FlowsService" }));
    await stream.end();
    const [asked] = file;
    expect(asked?.name).toBe("flowgate/v1/flows.proto");
    const registry = createFileRegistry(asked as FileDescriptorProto, (name) =>
      file.find((each) => each.name === name),
    );
    const setFlows = registry.getService("flowgate.v1.FlowsService")?.method["setFlows"];
    expect(setFlows?.input.fields.map(({ name }) => name)).toEqual(
      FlowsService.method.setFlows.input.fields.map(({ name }) => name),
    );
    expect(setFlows && getOption(setFlows, access).rule).toEqual({ case: "permission", value: "flows.write" });
    expect(setFlows && getOption(setFlows, http).pattern).toEqual({ case: "post", value: "/flows" });
    const sources = new Map(closureOf(FlowsService.file).map(({ proto }) => [proto.name, proto]));
    expect(file.map(({ name }) => name).toSorted()).toEqual([...sources.keys()].toSorted());
    for (const proto of file) {
      const source = sources.get(proto.name) as FileDescriptorProto;
      expect(equals(FileDescriptorProtoSchema, proto, source, { registry: createRegistry(), unknown: true })).toBe(
        true,
      );
    }
  });

  test("a closing server ends the stream", async () => {
    const server = await open(true);
    using stream = openStream(transport(server.url));
    await stream.ask({ case: "listServices", value: "" });
    const after = failureOf(stream.next());
    await server[Symbol.asyncDispose]();
    expect((await after).code).toBe(Code.Unavailable);
    expect(server.lines).toEqual([]);
  });

  test("the disconnect of a client is not logged as an error", async () => {
    await using server = await open(true);
    {
      using stream = openStream(transport(server.url));
      await stream.ask({ case: "listServices", value: "" });
    }
    await server[Symbol.asyncDispose]();
    expect(server.lines).toEqual([]);
  });

  test("is not served if it is off", async () => {
    for (const reflection of [false, undefined]) {
      await using server = await open(reflection);
      using stream = openStream(transport(server.url));
      expect((await failureOf(stream.ask({ case: "listServices", value: "" }))).code).toBe(Code.Unimplemented);
    }
  });
});

function closureOf(file: DescFile, found: DescFile[] = []): DescFile[] {
  if (!found.includes(file)) {
    found.push(file);
    for (const dependency of file.dependencies) {
      closureOf(dependency, found);
    }
  }
  return found;
}

describe("a stream of requests", () => {
  let server: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => void (server = await open(true)));
  afterAll(() => server?.[Symbol.asyncDispose]());

  const openOne = () => openStream(createGrpcTransport({ baseUrl: server.url }));

  test("gets each dependency once, and requested files always", async () => {
    using stream = openOne();
    const first = namesOf(await stream.ask({ case: "fileByFilename", value: "flowgate/v1/flows.proto" }));
    expect(first).toContain("google/protobuf/descriptor.proto");
    expect(new Set(first).size).toBe(first.length);
    const second = namesOf(await stream.ask({ case: "fileByFilename", value: "flowgate/v1/auth.proto" }));
    expect(second).toEqual(["flowgate/v1/auth.proto"]);
    expect(namesOf(await stream.ask({ case: "fileByFilename", value: "flowgate/v1/flows.proto" }))).toEqual([
      "flowgate/v1/flows.proto",
    ]);
    using other = openOne();
    expect(namesOf(await other.ask({ case: "fileByFilename", value: "flowgate/v1/flows.proto" }))).toEqual(first);
  });

  test.each([
    ["a service", "flowgate.v1.FlowsService", "flowgate/v1/flows.proto"],
    ["a method", "flowgate.v1.FlowsService.SetFlows", "flowgate/v1/flows.proto"],
    ["a message", "flowgate.v1.SetFlowsRequest", "flowgate/v1/flows.proto"],
    ["a field", "flowgate.v1.SetFlowsRequest.rev", "flowgate/v1/flows.proto"],
    ["a oneof", "flowgate.v1.Access.rule", "flowgate/v1/access.proto"],
    ["an extension", "flowgate.v1.access", "flowgate/v1/access.proto"],
    ["a nested enum", "grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"],
    ["a value of a nested enum", "grpc.health.v1.HealthCheckResponse.SERVING", "grpc/health/v1/health.proto"],
    ["an enum", "google.protobuf.Edition", "google/protobuf/descriptor.proto"],
    ["a value of an enum", "google.protobuf.EDITION_2023", "google/protobuf/descriptor.proto"],
    ["a nested message", "google.protobuf.DescriptorProto.ExtensionRange", "google/protobuf/descriptor.proto"],
    ["an entry of a map", "grpc.health.v1.HealthListResponse.StatusesEntry", "grpc/health/v1/health.proto"],
    ["the reflection of before", "grpc.reflection.v1alpha.ErrorResponse", "grpc/reflection/v1alpha/reflection.proto"],
    ["a detail of errors", ErrorInfoSchema.typeName, "google/rpc/error_details.proto"],
  ])("finds %s", async (_, value, file) => {
    using stream = openOne();
    expect(namesOf(await stream.ask({ case: "fileContainingSymbol", value }))[0]).toBe(file);
  });

  test("finds extensions by their numbers", async () => {
    using stream = openOne();
    const containingType = "google.protobuf.MethodOptions";
    expect(
      namesOf(
        await stream.ask({ case: "fileContainingExtension", value: { containingType, extensionNumber: 51_240 } }),
      )[0],
    ).toBe("flowgate/v1/access.proto");
    const { messageResponse } = await stream.ask({ case: "allExtensionNumbersOfType", value: containingType });
    const { baseTypeName, extensionNumber } = messageResponse.value as {
      baseTypeName: string;
      extensionNumber: number[];
    };
    expect(baseTypeName).toBe(containingType);
    // flowgate.v1.access and google.api.http are among them.
    expect(extensionNumber).toEqual(expect.arrayContaining([51_240, 72_295_728]));
    expect(extensionNumber).toEqual(extensionNumber.toSorted((a, b) => a - b));
    expect(
      (await stream.ask({ case: "allExtensionNumbersOfType", value: "flowgate.v1.SetFlowsRequest" })).messageResponse,
    ).toMatchObject({ case: "allExtensionNumbersResponse", value: { extensionNumber: [] } });
  });

  test.each<[string, Question]>([
    ["a file", { case: "fileByFilename", value: "flowgate/v1/nothing.proto" }],
    ["a file by half of its path", { case: "fileByFilename", value: "flows.proto" }],
    ["a name", { case: "fileContainingSymbol", value: "flowgate.v1.Nothing" }],
    ["a package", { case: "fileContainingSymbol", value: "flowgate.v1" }],
    ["a property of objects", { case: "fileContainingSymbol", value: "constructor" }],
    [
      "an extension",
      {
        case: "fileContainingExtension",
        value: { containingType: "google.protobuf.MethodOptions", extensionNumber: 1 },
      },
    ],
    ["a message to extend", { case: "allExtensionNumbersOfType", value: "flowgate.v1.Nothing" }],
  ])("gets NOT_FOUND for %s, and stays open", async (_, question) => {
    using stream = openOne();
    const httpResponse = await stream.ask(question);
    expect(httpResponse).toMatchObject({
      validHost: "the.host",
      originalRequest: { host: "the.host", messageRequest: question },
      messageResponse: { case: "errorResponse", value: { errorCode: Code.NotFound } },
    });
    expect((await stream.ask({ case: "listServices", value: "" })).messageResponse.case).toBe("listServicesResponse");
    await stream.end();
  });

  test("gets an error for an empty request, and stays open", async () => {
    using stream = openOne();
    expect((await stream.ask({ case: undefined })).messageResponse).toMatchObject({
      case: "errorResponse",
      value: { errorCode: Code.Unimplemented },
    });
    expect((await stream.ask({ case: "listServices", value: "" })).messageResponse.case).toBe("listServicesResponse");
  });
});

test("a lost connection is not logged as an error", async () => {
  const server = await open(true, "debug");
  const session = connect(server.url);
  const stream = session.request({
    ":method": "POST",
    ":path": "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "content-type": "application/grpc",
    te: "trailers",
  });
  // list_services: ""
  stream.write(Uint8Array.of(0, 0, 0, 0, 2, 0x3a, 0));
  await once(stream, "data");
  session.destroy();
  // Logged when the server has detected it.
  const [line] = await eventually(async () => {
    expect(server.lines).toHaveLength(1);
    return server.lines;
  });
  expect(line).toMatchObject({ level: "debug" });
  await server[Symbol.asyncDispose]();
  expect(server.lines).toHaveLength(1);
});

test("is rejected over HTTP/1.1", async () => {
  await using server = await open(true);
  for (const contentType of ["application/connect+proto", "application/grpc-web+proto"]) {
    const reply = await fetch(`${server.url}/grpc.reflection.v1.ServerReflection/ServerReflectionInfo`, {
      method: "POST",
      headers: { "content-type": contentType },
      body: new Uint8Array(5),
    });
    expect([reply.status, await reply.json()]).toMatchObject([505, { message: "this RPC requires HTTP/2" }]);
  }
});

describe("access to reflection", () => {
  const adminAuth = { users: [user("ada", ["settings.read"])], default: { permissions: "*" } };

  /** The codes without a token, with an invalid one and with a valid one; undefined: success. */
  async function ask(options: OptionsInput) {
    const dataDir = await mkdtemp(join(tmpdir(), "flowgate-reflection-"));
    try {
      await using gateway = await openFlowgate(
        parseOptions({ port: 0, dataDir, runtime: { mode: "none" }, log: { level: "silent" }, ...options }),
      );
      const transport = createGrpcTransport({ baseUrl: gateway.url });
      const codes: (Code | undefined)[] = [];
      const tokens = ["", "Bearer bad"];
      if (options.adminAuth !== undefined) {
        const { accessToken } = await createClient(AuthService, transport).issueToken({
          clientId: "service-admin",
          grantType: "password",
          scope: "settings.read",
          username: "ada",
          password: passwordOf("ada"),
        });
        tokens.push(`Bearer ${accessToken}`);
      }
      for (const [, version] of versions) {
        for (const authorization of tokens) {
          using stream = openStream(transport, version, authorization === "" ? {} : { authorization });
          codes.push(
            await stream.ask({ case: "listServices", value: "" }).then(
              () => undefined,
              (error: unknown) => ConnectError.from(error).code,
            ),
          );
        }
      }
      return codes;
    } finally {
      await rm(dataDir, { recursive: true });
    }
  }

  const refused = [Code.Unauthenticated, Code.Unauthenticated, undefined];
  const missing = [Code.Unimplemented, Code.Unimplemented, Code.Unimplemented];

  test.each<[string, OptionsInput, (Code | undefined)[]]>([
    ["is open if no token is needed", {}, [undefined, undefined]],
    ["requires any valid token with adminAuth", { adminAuth }, refused],
    ["is open if configured so", { adminAuth, reflection: "open" }, [undefined, undefined, undefined]],
    ["is not served if it is off", { adminAuth, reflection: "off" }, missing],
  ])("%s", async (_, options, expected) => {
    expect(await ask(options)).toEqual([...expected, ...expected]);
  });
});
