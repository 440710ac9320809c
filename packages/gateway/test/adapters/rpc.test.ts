import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { buffer } from "node:stream/consumers";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { Client, credentials, Metadata, status as grpcStatus } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { BadRequestSchema, ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { ListRequestSchema, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { OpenThingRequestSchema, OpenThingResponseSchema, ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { openEdgeHandler } from "./edge.ts";
import { fetchTransports, http1Servers, http2Servers, openHttp2, rpcServers } from "./rpc-servers.ts";
import { failureOf, routes, streams, things } from "./rpc-routes.ts";
import { collect } from "../serve-streams.ts";

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
