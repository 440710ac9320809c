import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { buffer } from "node:stream/consumers";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { Client, credentials, Metadata, status as grpcStatus } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { createNodeHandler } from "../../src/adapters/node/index.ts";
import { createGateway } from "../../src/index.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { ItemSchema, ListRequestSchema, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { OpenThingRequestSchema, OpenThingResponseSchema, ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { buildServices } from "../build-message.ts";
import { openEdgeHandler } from "./edge.ts";
import { fetchTransports, http1Servers, http2Servers, openHttp2, type RpcOptions, rpcServers } from "./rpc-servers.ts";

const routes: RpcOptions["routes"] = (router) =>
  router
    .service(ThingsService, {
      openThing: ({ id }) => ({ id: `${id} opened` }),
      sendForm({ userName }, context) {
        switch (userName) {
          case "nobody":
            throw new ConnectError("there is no such user", Code.NotFound, { "x-hint": "try somebody" }, [
              { desc: BadRequestSchema, value: { fieldViolations: [{ field: "user_name", description: "unknown" }] } },
            ]);
          case "bug":
            throw new TypeError("internal information");
          default:
            context.responseHeader.set("x-header", "before");
            context.responseTrailer.set("x-trailer", "after");
            return {
              userName: userName.length > 100 ? userName : `${userName} by ${context.requestHeader.get("x-by")}`,
            };
        }
      },
    })
    .service(StreamsService, {
      async *list({ shelf, count }) {
        for (let number = 1; number <= count; number++) {
          yield { shelf, count: number };
        }
        if (shelf === "broken") {
          throw new ConnectError("the shelf broke", Code.DataLoss);
        }
      },
      async sum(items) {
        let count = 0;
        for await (const item of items) {
          count += item.count;
        }
        return { count };
      },
      async *chat(items) {
        for await (const { text } of items) {
          yield { text: text.toUpperCase() };
        }
      },
    });

async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => Promise.reject(new Error("the call has succeeded")),
    (error: unknown) => ConnectError.from(error),
  );
}

const things = (transport: Transport) => createClient(ThingsService, transport);
const streams = (transport: Transport) => createClient(StreamsService, transport);

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}

async function* textsOf(...texts: string[]): AsyncGenerator<{ text: string }> {
  for (const text of texts) {
    yield { text };
  }
}

describe.each(rpcServers)("%s", (_, open) => {
  test("serves unary calls, with headers, trailers and compression", async () => {
    await using server = await open({ routes });
    for (const [, transport] of server.transports) {
      let header: Headers | undefined;
      let trailer: Headers | undefined;
      const options = {
        headers: { "x-by": "test" },
        onHeader: (headers: Headers) => void (header = headers),
        onTrailer: (trailers: Headers) => void (trailer = trailers),
      };
      expect(await things(transport).sendForm({ userName: "ann" }, options)).toMatchObject({ userName: "ann by test" });
      expect([header?.get("x-header"), trailer?.get("x-trailer")]).toEqual(["before", "after"]);
      const long = "long ".repeat(10_000);
      expect(await things(transport).sendForm({ userName: long }, options)).toMatchObject({ userName: long });
      expect(await things(transport).openThing({ id: "a" })).toMatchObject({ id: "a opened" });
    }
    expect(server.transports.length).toBeGreaterThan(3);
  });

  test("serves streams", async () => {
    await using server = await open({ routes });
    for (const [protocol, transport] of server.transports) {
      const client = streams(transport);
      expect((await collect(client.list({ shelf: "a", count: 3 }))).map(({ count }) => count)).toEqual([1, 2, 3]);
      const received: number[] = [];
      const failure = await failureOf(
        (async () => {
          for await (const { count } of client.list({ shelf: "broken", count: 2 })) {
            received.push(count);
          }
        })(),
      );
      expect([protocol, received, failure.code, failure.rawMessage]).toEqual([
        protocol,
        [1, 2],
        Code.DataLoss,
        "the shelf broke",
      ]);
    }
  });

  test("sends errors with their details and metadata, and hides those of other kinds", async () => {
    await using server = await open({ routes });
    for (const [protocol, transport] of server.transports) {
      const failure = await failureOf(things(transport).sendForm({ userName: "nobody" }));
      expect([protocol, failure.code, failure.rawMessage]).toEqual([protocol, Code.NotFound, "there is no such user"]);
      expect(failure.metadata.get("x-hint")).toBe("try somebody");
      expect(failure.findDetails(BadRequestSchema)).toMatchObject([{ fieldViolations: [{ field: "user_name" }] }]);
      const internal = await failureOf(things(transport).sendForm({ userName: "bug" }));
      expect([internal.code, internal.rawMessage]).toEqual([Code.Internal, "internal error"]);
      expect((await failureOf(things(transport).echoThing({}))).code).toBe(Code.Unimplemented);
    }
  });

  test("limits messages, deadlines and callers before the body is read", async () => {
    const calls: string[] = [];
    const signals: AbortSignal[] = [];
    // The deadline can have expired while the body was read; no event follows then.
    const whenAborted = (signal: AbortSignal): unknown => (signal.aborted ? undefined : once(signal, "abort"));
    await using server = await open({
      routes: (router) =>
        router.service(ThingsService, {
          async sendForm(_request, { signal }) {
            signals.push(signal);
            await whenAborted(signal);
            throw signal.reason;
          },
        }),
      errorDomain: "things.example",
      readMaxBytes: 1000,
      requestGate({ requestHeader, method }) {
        calls.push(method.name);
        if (requestHeader.get("authorization") === "none") {
          throw new ConnectError("who are you?", Code.Unauthenticated);
        }
      },
    });
    for (const [protocol, transport] of server.transports) {
      const tooLong = await failureOf(things(transport).sendForm({ userName: "x".repeat(2000) }));
      expect([protocol, tooLong.code]).toEqual([protocol, Code.ResourceExhausted]);
      expect(tooLong.rawMessage).toBe("the request message is larger than 1000 bytes");
      expect(tooLong.findDetails(ErrorInfoSchema)).toMatchObject([
        { reason: "payload_too_large", domain: "things.example" },
      ]);
      signals.length = 0;
      // On a busy machine a deadline can expire before the implementation is called.
      for (let timeoutMs = 50; signals.length === 0; timeoutMs *= 2) {
        const late = await failureOf(things(transport).sendForm({}, { timeoutMs }));
        expect(late.code).toBe(Code.DeadlineExceeded);
      }
      await Promise.all(signals.map(whenAborted));
      const headers = { authorization: "none" };
      const refused = await failureOf(things(transport).sendForm({ userName: "ann" }, { headers }));
      expect([refused.code, refused.rawMessage]).toEqual([Code.Unauthenticated, "who are you?"]);
    }
    expect(new Set(calls)).toEqual(new Set(["SendForm"]));
  });

  test("applies the options of a registration in all protocols", async () => {
    const seen: string[] = [];
    const note =
      (name: string): Interceptor =>
      (next) =>
      (request) => {
        seen.push(name);
        return next(request);
      };
    await using server = await open({
      interceptors: [note("gateway")],
      routes: (router) =>
        router.service(
          ThingsService,
          { sendForm: ({ userName }) => ({ userName }), openThing: ({ id }) => ({ id }) },
          {
            interceptors: [note("service")],
            requestGate({ requestHeader }) {
              if (requestHeader.get("authorization") === null) {
                throw new ConnectError("for members", Code.PermissionDenied);
              }
            },
          },
        ),
    });
    const headers = { authorization: "me" };
    for (const [, transport] of server.transports) {
      expect((await failureOf(things(transport).openThing({ id: "a" }))).code).toBe(Code.PermissionDenied);
      await things(transport).openThing({ id: "a" }, { headers });
    }
    expect(seen).toEqual(server.transports.map(() => "service"));
    const put = (more: Record<string, string>): Promise<number> =>
      server.statusOf("PUT", "/things/open", { "content-type": "application/json", ...more }, '{"id":"a"}');
    expect(await put({})).toBe(403);
    expect(await put(headers)).toBe(201);
  });

  test("serves only the protocols of the option", async () => {
    // A rule concerns REST alone.
    const rules = [{ selector: `${ThingsService.typeName}.OpenThing` }];
    await using server = await open({ routes, rules, protocols: ["grpc-web"] });
    for (const [protocol, transport] of server.transports) {
      const outcome = await things(transport)
        .openThing({ id: "a" })
        .then(
          ({ id }) => id,
          () => "refused",
        );
      expect([protocol, outcome]).toEqual([protocol, protocol.startsWith("gRPC-Web") ? "a opened" : "refused"]);
    }
  });
});

test.each(http1Servers)("%s serves gRPC over HTTP/1.1, with trailers", async (_, open) => {
  await using server = await open({ routes });
  const message = toBinary(OpenThingRequestSchema, create(OpenThingRequestSchema, { id: "a" }));
  const request = httpRequest(`${server.baseUrl}/${ThingsService.typeName}/OpenThing`, {
    method: "POST",
    headers: { "content-type": "application/grpc+proto", te: "trailers" },
  });
  request.end(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const body = await buffer(response);
  expect([response.statusCode, response.headers["content-type"]]).toEqual([200, "application/grpc+proto"]);
  expect(fromBinary(OpenThingResponseSchema, body.subarray(5))).toMatchObject({ id: "a opened" });
  expect(response.trailers["grpc-status"]).toBe("0");
});

test.each([...http1Servers, ...http2Servers])("%s serves streams of requests", async (_, open) => {
  await using server = await open({ routes });
  for (const [protocol, transport] of server.transports) {
    const counts = (async function* () {
      yield { count: 1 };
      yield { count: 2 };
    })();
    expect([protocol, (await streams(transport).sum(counts)).count]).toEqual([protocol, 3]);
  }
});

test.each(http2Servers)("%s serves bidirectional streams", async (_, open) => {
  await using server = await open({ routes });
  for (const [protocol, transport] of server.transports) {
    const answers = await collect(streams(transport).chat(textsOf("a", "b")));
    expect([protocol, ...answers.map(({ text }) => text)]).toEqual([protocol, "A", "B"]);
  }
});

describe("grpc-js", () => {
  const path = (method: string): string => `/gatewaytest.v1.StreamsService/${method}`;
  const encode = (value: Buffer): Buffer => value;
  const list = Buffer.from([0x0a, 1, 0x61, 0x10, 2]);

  test.each(http2Servers)("calls %s", async (_, open) => {
    await using server = await open({ routes });
    const client = new Client(new URL(server.baseUrl).host, credentials.createInsecure());
    const stream = client.makeServerStreamRequest(path("List"), encode, encode, list);
    expect((await collect(stream as AsyncIterable<Buffer>)).length).toBe(2);
    const call = (name: string, body: Buffer): Promise<{ code: number; details: string }> =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(name, encode, encode, body, new Metadata(), (error) => {
          if (error === null) {
            reject(new Error("the call has succeeded"));
          } else {
            resolve(error);
          }
        });
      });
    const nobody = Buffer.concat([Buffer.from([0x0a, 6]), Buffer.from("nobody")]);
    expect(await call("/gatewaytest.v1.ThingsService/SendForm", nobody)).toMatchObject({
      code: grpcStatus.NOT_FOUND,
      details: "there is no such user",
    });
    expect(await call("/gatewaytest.v1.ThingsService/Missing", list)).toMatchObject({
      code: grpcStatus.UNIMPLEMENTED,
      details: "this server has no such RPC",
    });
    client.close();
  });
});

test("gRPC over fetch, which carries no trailers, is refused in its own form", async () => {
  const handle = createFetchHandler({ routes });
  const answer = await handle(
    new Request("http://gateway.test/gatewaytest.v1.ThingsService/OpenThing", {
      method: "POST",
      headers: { "content-type": "application/grpc" },
    }),
  );
  expect([answer.status, answer.headers.get("grpc-status")]).toEqual([200, String(Code.Unimplemented)]);
});

test("a stream ends with the reason of the shutdown", async () => {
  const closing = new AbortController();
  const begun = Promise.withResolvers<void>();
  await using server = await openHttp2({
    shutdownSignal: closing.signal,
    routes: (router) =>
      router.service(StreamsService, {
        async *list() {
          yield { count: 1 };
          begun.resolve();
          await new Promise(() => {});
        },
      }),
  });
  const ends = server.transports.map(([, transport]) =>
    failureOf(collect(streams(transport).list(create(ListRequestSchema)))),
  );
  await begun.promise;
  closing.abort(new ConnectError("moving house", Code.Unavailable));
  for (const failure of await Promise.all(ends)) {
    expect([failure.code, failure.rawMessage]).toEqual([Code.Unavailable, "moving house"]);
  }
});

test("an edge runtime, which has no Buffer, serves Connect and gRPC-Web", async () => {
  const handle = await openEdgeHandler();
  const call: typeof fetch = async (input, init) => handle(new Request(input, init));
  for (const [protocol, transport] of fetchTransports(call)) {
    const answer = await things(transport).sendForm({ userName: "x".repeat(5000), age: 41 });
    expect([protocol, answer.age, answer.userName.length]).toEqual([protocol, 41, 5000]);
    const items = await collect(streams(transport).list({ shelf: "a", count: 2 }));
    expect(items.map(({ text }) => text)).toEqual(["one of many", "one of many"]);
    expect((await failureOf(things(transport).sendForm({ userName: "nobody" }))).code).toBe(Code.NotFound);
  }
});

test.each(rpcServers)("%s serves below a prefix", async (_, open) => {
  await using server = await open({ routes, requestPathPrefix: "/api/v2" });
  const put = (path: string): Promise<number> =>
    server.statusOf("PUT", path, { "content-type": "application/json" }, '{"id":"a"}');
  expect(await put("/api/v2/things/open?")).toBe(201);
  expect(await put("/things/open")).toBe(404);
  expect(await put("/api/v2")).toBe(404);
  expect(await put("/api/v22/things/open")).toBe(404);
  const post = (path: string): Promise<number> =>
    server.statusOf("POST", path, { "content-type": "application/json" }, '{"id":"a"}');
  expect(await post("/api/v2/gatewaytest.v1.ThingsService/OpenThing")).toBe(200);
  expect(await post("/gatewaytest.v1.ThingsService/OpenThing")).toBe(404);
});

test("a CORS policy allows what browsers send and read of RPCs", async () => {
  const handle = createFetchHandler({ routes, cors: { origins: ["https://app.example"] } });
  const call: typeof fetch = async (input, init) => handle(new Request(input, init));
  const url = "http://gateway.test/gatewaytest.v1.ThingsService/OpenThing";
  const origin = { origin: "https://app.example" };
  const preflight = await call(url, {
    method: "OPTIONS",
    headers: { ...origin, "access-control-request-method": "POST" },
  });
  expect([preflight.status, preflight.headers.get("access-control-allow-methods")]).toEqual([204, "POST"]);
  expect(preflight.headers.get("access-control-allow-headers")).toMatch(/Connect-Protocol-Version.*X-Grpc-Web/);
  const answer = await call(url, {
    method: "POST",
    headers: { ...origin, "content-type": "application/json" },
    body: '{"id":"a"}',
  });
  expect(await answer.json()).toEqual({ id: "a opened" });
  expect(answer.headers.get("access-control-allow-origin")).toBe("https://app.example");
  expect(answer.headers.get("access-control-expose-headers")).toMatch(/Grpc-Status-Details-Bin/);
});

test("routes are registered once for all gateways", () => {
  let calls = 0;
  const counted: RpcOptions["routes"] = (router) => {
    calls += 1;
    return routes(router);
  };
  createNodeHandler({ routes: counted });
  createFetchHandler({ routes: counted, protocols: ["rest"] });
  expect(createGateway({ routes: counted }).methods.length).toBeGreaterThan(5);
  expect(calls).toBe(1);
});

test.each([
  ["POST", "OpenThing", "", "the Content-Type of this RPC must be application/proto or application/json"],
  ["GET", "GetHeaders", "?message={}", "the parameter encoding must be proto or json"],
  ["GET", "OpenThing", "", "this RPC must be called with POST"],
])("a request that no protocol accepts is told what is: %s %s%s", async (method, name, query, message) => {
  const handle = createFetchHandler({ routes, protocols: ["connect"] });
  const url = `http://gateway.test/${ThingsService.typeName}/${name}${query}`;
  const response = await handle(new Request(url, { method }));
  expect(await response.json()).toEqual({ code: "unknown", message });
});

test("routes that register after they have returned are an error, instead of RPCs that do not exist", async () => {
  let registered: Promise<void> | undefined;
  createNodeHandler({
    routes: (router) => {
      registered = Promise.resolve().then(() => void routes(router));
    },
  });
  await expect(registered).rejects.toThrow(
    "the option routes has registered rpc gatewaytest.v1.ThingsService.EchoThing too late: " +
      "it must register all RPCs before it returns, without waiting",
  );
});

test("an option that is wrong is named", () => {
  const misspelt = { routes, protocols: ["gprc"] } as unknown as Parameters<typeof createGateway>[0];
  expect(() => createGateway(misspelt)).toThrow('the option protocols must be an array of "connect", "grpc"');
  expect(() => createGateway({ routes, requestPathPrefix: "api/" })).toThrow(
    "the option requestPathPrefix must be a path",
  );
});

describe("standard services", () => {
  test("health serves all services until the shutdown", async () => {
    const closing = new AbortController();
    await using server = await openHttp2({ routes, health: true, shutdownSignal: closing.signal });
    for (const [, transport] of server.transports) {
      const health = createClient(Health, transport);
      expect(await health.check({ service: ThingsService.typeName })).toMatchObject({ status: Status.SERVING });
      expect(Object.keys((await health.list({})).statuses)).toEqual([
        "",
        ThingsService.typeName,
        StreamsService.typeName,
        Health.typeName,
      ]);
      expect((await failureOf(health.check({ service: "example.v1.Nothing" }))).code).toBe(Code.NotFound);
    }
    const [, [, transport] = []] = server.transports;
    if (transport === undefined) {
      throw new Error("there is no transport");
    }
    const health = createClient(Health, transport);
    const watch = health.watch({})[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: Status.SERVING });
    closing.abort();
    expect(await health.check({})).toMatchObject({ status: Status.NOT_SERVING });
    expect((await watch.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    expect((await failureOf(watch.next())).code).toBe(Code.Unavailable);
  });

  test("health reports what the application says, and limits watches", async () => {
    let isUp = false;
    let watches = 0;
    let changed = (): void => {};
    await using server = await openHttp2({
      routes,
      health: {
        serves: (service) => isUp || service === Health.typeName,
        onChange: (listener) => void (changed = listener),
        admitWatch() {
          if (watches > 0) {
            throw new ConnectError("one watch is enough", Code.ResourceExhausted);
          }
          watches++;
          return () => void watches--;
        },
      },
    });
    const [, [, transport] = []] = server.transports;
    const health = createClient(Health, transport as Transport);
    const abort = new AbortController();
    expect(await health.check({ service: ThingsService.typeName })).toMatchObject({ status: Status.NOT_SERVING });
    expect(await health.check({ service: Health.typeName })).toMatchObject({ status: Status.SERVING });
    const watch = health.watch({}, { signal: abort.signal })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    expect((await failureOf(collect(health.watch({})))).code).toBe(Code.ResourceExhausted);
    isUp = true;
    changed();
    expect((await watch.next()).value).toMatchObject({ status: Status.SERVING });
    abort.abort();
    expect((await failureOf(watch.next())).code).toBe(Code.Canceled);
  });

  test.each([
    [98, 100],
    [99, Code.ResourceExhausted],
  ])("health lists %i services, itself and the whole: %i", async (count, expected) => {
    const services = buildServices(count);
    const handle = createFetchHandler({
      routes: (router) => services.forEach((service) => router.service(service, {})),
      health: true,
    });
    const [[, transport] = []] = fetchTransports(async (input, init) => handle(new Request(input, init)));
    const outcome = await createClient(Health, transport as Transport)
      .list({})
      .then(
        ({ statuses }) => Object.keys(statuses).length,
        (error: unknown) => ConnectError.from(error).code,
      );
    expect(outcome).toBe(expected);
  });

  test("reflection describes the registered services and itself", async () => {
    await using server = await openHttp2({ routes, reflection: true, health: true });
    for (const [, transport] of server.transports) {
      const client = createClient(ServerReflection, transport);
      async function* requests() {
        yield { messageRequest: { case: "listServices", value: "" } } as const;
        yield { messageRequest: { case: "fileContainingSymbol", value: "gatewaytest.v1.Item" } } as const;
      }
      const [services, file] = await collect(client.serverReflectionInfo(requests()));
      expect(services?.messageResponse).toMatchObject({
        case: "listServicesResponse",
        value: {
          service: [
            { name: StreamsService.typeName },
            { name: ThingsService.typeName },
            { name: Health.typeName },
            { name: ServerReflection.typeName },
            { name: "grpc.reflection.v1alpha.ServerReflection" },
          ],
        },
      });
      expect(file?.messageResponse.case).toBe("fileDescriptorResponse");
    }
  });

  test("are off by default", async () => {
    await using server = await openHttp2({ routes });
    const [, [, transport] = []] = server.transports;
    expect((await failureOf(createClient(Health, transport as Transport).check({}))).code).toBe(Code.Unimplemented);
  });
});

test("a request is told when its call begins, in which format, and with which code it fails", async () => {
  const gateway = createGateway({ routes });
  const events: unknown[] = [];
  const send = (path: string, type: string, body: Uint8Array) =>
    gateway.handle({
      httpMethod: "POST",
      httpVersionMajor: 2,
      target: path,
      headers: { "content-type": type },
      hasBody: () => true,
      readBody: async () => body,
      async *streamBody() {
        yield body;
      },
      url: () => `http://gateway.test${path}`,
      contextValues: () => undefined,
      onAbort() {},
      begin: ({ name }, format) => void events.push([name, format]),
      fail: (code) => void events.push(code),
    });
  const service = `/${ThingsService.typeName}`;
  const json = new TextEncoder().encode('{"id": "a"}');
  await send(`${service}/OpenThing`, "application/json", json);
  await send(`${service}/OpenThing`, "application/proto", Uint8Array.of(0x0a, 1, 0x61));
  await send(`${service}/OpenThing`, "application/grpc+json", Uint8Array.of(0, 0, 0, 0, json.length, ...json));
  await send(`${service}/SendForm`, "application/json", new TextEncoder().encode('{"userName": "nobody"}'));
  await send(`${service}/SendForm`, "application/grpc", Uint8Array.of(7, 0, 0, 0, 0));
  await send(`${service}/SendForm`, "image/png", json);
  await send(`${service}/Nothing`, "application/grpc", json);
  expect(events).toEqual([
    ["OpenThing", "json"],
    ["OpenThing", "proto"],
    ["OpenThing", "json"],
    ["SendForm", "json"],
    Code.NotFound,
    ["SendForm", "proto"],
    Code.InvalidArgument,
    // The status is 415; the body has the code `unknown`, as Connect's clients read it.
    Code.InvalidArgument,
    Code.Unknown,
    Code.Unimplemented,
  ]);
});

test("a frozen message is compressed once for all streams", async () => {
  const item = Object.freeze(create(ItemSchema, { text: "again ".repeat(1000) }));
  const gateway = createGateway({
    routes: (router) =>
      router.service(StreamsService, {
        async *list() {
          yield item;
        },
      }),
  });
  const receive = async (): Promise<Uint8Array> => {
    const target = `/${StreamsService.typeName}/List`;
    const { body } = await gateway.handle({
      httpMethod: "POST",
      httpVersionMajor: 2,
      target,
      headers: { "content-type": "application/grpc", "grpc-accept-encoding": "gzip" },
      hasBody: () => true,
      readBody: async () => new Uint8Array(5),
      async *streamBody() {},
      url: () => `http://gateway.test${target}`,
      contextValues: () => undefined,
      onAbort() {},
    });
    const [first = new Uint8Array()] = await collect(body as AsyncIterable<Uint8Array>);
    return first;
  };
  const first = await receive();
  expect([first[0], first.length < 200]).toEqual([1, true]);
  expect(await receive()).toBe(first);
});
