import { Code, ConnectError, createContextKey, createContextValues, type Interceptor } from "@connectrpc/connect";
import type { ServiceImpl } from "@connectrpc/connect";
import { once } from "node:events";
import { connect } from "node:http2";
import { describe, expect, test } from "vitest";
import {
  BodilessStreamService,
  FormStreamService,
  NoContentStreamService,
  StreamsService,
} from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { type FastifyGatewayPluginOptions } from "../../../../src/adapters/fastify/index.ts";
import { createGateway } from "../../../../src/index.ts";
import { collect, serveStreams, type HttpVersion, type Streams } from "../../../serve-streams.ts";
import { vectors } from "../../../vectors.ts";

type Implementation = Partial<ServiceImpl<typeof StreamsService>>;

const serve = (
  version: HttpVersion,
  implementation: Implementation,
  options: Omit<FastifyGatewayPluginOptions, "routes"> = {},
): Promise<Streams> =>
  serveStreams(version, { ...options, routes: (router) => router.service(StreamsService, implementation) });

const two: Implementation = {
  async *list({ shelf }) {
    yield { shelf, text: "a" };
    yield { shelf, text: "b" };
  },
};

const failing = (error: unknown, after = 1): Implementation => ({
  async *list() {
    for (let i = 0; i < after; i++) {
      yield { text: "a" };
    }
    throw error;
  },
});

const ndjson = { "content-type": "application/x-ndjson" };

describe.each<[HttpVersion]>([["HTTP/1.1"], ["HTTP/2"]])("a server stream over %s", (version) => {
  test.each([
    [undefined, "application/x-ndjson", '{"text":"a"}\n{"text":"b"}\n'],
    ["*/*", "application/x-ndjson", '{"text":"a"}\n{"text":"b"}\n'],
    ["application/x-ndjson", "application/x-ndjson", '{"text":"a"}\n{"text":"b"}\n'],
    ["application/jsonl", "application/jsonl", '{"text":"a"}\n{"text":"b"}\n'],
    ["application/ndjson;q=0.5", "application/ndjson", '{"text":"a"}\n{"text":"b"}\n'],
    ["text/event-stream", "text/event-stream", 'data: {"text":"a"}\n\ndata: {"text":"b"}\n\n'],
    ["text/*", "text/event-stream", 'data: {"text":"a"}\n\ndata: {"text":"b"}\n\n'],
    ["application/json", "application/json", '[{"text":"a"},{"text":"b"}]'],
    ["application/json, text/plain, */*", "application/json", '[{"text":"a"},{"text":"b"}]'],
    ["text/event-stream;q=0.1, application/json;q=0.2", "application/json", '[{"text":"a"},{"text":"b"}]'],
    ["application/x-ndjson;q=0, application/*", "application/ndjson", '{"text":"a"}\n{"text":"b"}\n'],
  ])("has the format that Accept selects: %s", async (accept, contentType, body) => {
    await using server = await serve(version, {
      async *list() {
        yield { text: "a" };
        yield { text: "b" };
      },
    });
    const response = await server.request(
      "GET",
      "/streams/s/items",
      accept === undefined ? {} : { headers: { accept } },
    );
    expect(response).toMatchObject({
      status: 200,
      headers: { "content-type": contentType, vary: "Accept, Accept-Encoding" },
    });
    expect(await response.read()).toEqual({ body, isComplete: true });
  });

  test.each(["text/html", "application/x-ndjson;q=0, text/html"])("is 406 for an Accept of %s", async (accept) => {
    await using server = await serve(version, two);
    const response = await server.request("GET", "/streams/s/items", { headers: { accept } });
    expect(response).toMatchObject({ status: 406, headers: { "content-type": "application/json" } });
    expect(JSON.parse((await response.read()).body)).toEqual({
      code: "invalid_argument",
      reason: "not_acceptable",
      message: "this operation responds with application/x-ndjson, text/event-stream, application/json",
    });
  });

  test.each([
    ["application/x-ndjson", ""],
    ["text/event-stream", ""],
    ["application/json", "[]"],
  ])("without messages is complete: %s", async (accept, body) => {
    await using server = await serve(version, failing(undefined, 0));
    await using empty = await serve(version, { async *list() {} });
    const response = await empty.request("GET", "/streams/s/items", { headers: { accept } });
    expect(response).toMatchObject({ status: 200, headers: { "content-type": accept } });
    expect(await response.read()).toEqual({ body, isComplete: true });
    expect((await server.request("GET", "/streams/s/items", { headers: { accept } })).status).toBe(500);
  });

  test("binds path, query and response_body for each message", async () => {
    await using server = await serve(version, {
      async *list({ shelf, count }) {
        for (let i = 0; i < count; i++) {
          yield { text: `${shelf}${i}` };
        }
      },
    });
    const response = await server.request("GET", "/streams/x%2Fy/texts?count=2");
    expect(await response.read()).toEqual({ body: '"x/y0"\n"x/y1"\n', isComplete: true });
    const invalid = await server.request("GET", "/streams/s/items?count=x");
    expect([invalid.status, (await invalid.read()).body]).toEqual([
      400,
      '{"code":"invalid_argument","message":"count: must be a 32-bit integer"}',
    ]);
  });

  test("sends the headers that were set before its first message, and the header fields of that message", async () => {
    await using server = await serve(version, {
      async *list(_request, { responseHeader }) {
        responseHeader.set("x-early", "1");
        responseHeader.set("transfer-encoding", "gzip");
        responseHeader.set("x-odd", "\u00fc");
        yield { text: "a", version: "v7" };
        responseHeader.set("x-late", "1");
        yield { text: "b", version: "v8" };
      },
    });
    const response = await server.request("GET", "/streams/s/items");
    expect(await response.read()).toMatchObject({ body: '{"text":"a"}\n{"text":"b"}\n' });
    expect(response.headers).toMatchObject({ "x-early": "1", "x-version": "v7" });
    expect(response.headers["x-late"] ?? response.headers["x-odd"]).toBeUndefined();
  });

  test.each(["application/x-ndjson", "text/event-stream", "application/json"])(
    "that fails before its first message is an ordinary error response: %s",
    async (accept) => {
      await using server = await serve(version, failing(new ConnectError("gone", Code.NotFound, { "x-a": "1" }), 0));
      const response = await server.request("GET", "/streams/s/items", { headers: { accept } });
      expect(response).toMatchObject({ status: 404, headers: { "content-type": "application/json", "x-a": "1" } });
      expect(await response.read()).toEqual({ body: '{"code":"not_found","message":"gone"}', isComplete: true });
    },
  );

  test.each([
    ["application/x-ndjson", '{"text":"a"}\n{"error":{"code":"not_found","message":"gone"}}\n'],
    ["text/event-stream", 'data: {"text":"a"}\n\nevent: error\ndata: {"code":"not_found","message":"gone"}\n\n'],
    ["application/json", '[{"text":"a"},{"error":{"code":"not_found","message":"gone"}}'],
  ])("that fails later has an in-band error, and is aborted: %s", async (accept, body) => {
    await using server = await serve(version, failing(new ConnectError("gone", Code.NotFound)));
    const response = await server.request("GET", "/streams/s/items", { headers: { accept } });
    expect(response.status).toBe(200);
    expect(await response.read()).toEqual({ body, isComplete: false });
  });

  test("reveals nothing of an error that is not a ConnectError", async () => {
    await using server = await serve(version, failing(new Error("secret")));
    const response = await server.request("GET", "/streams/s/items");
    expect((await response.read()).body).toBe(
      '{"text":"a"}\n{"error":{"code":"internal","message":"internal error"}}\n',
    );
  });

  test("has errors in the format of the option", async () => {
    await using server = await serve(version, failing(new ConnectError("gone", Code.NotFound)), { errors: "status" });
    const response = await server.request("GET", "/streams/s/items");
    expect((await response.read()).body).toBe('{"text":"a"}\n{"error":{"code":5,"message":"gone","details":[]}}\n');
  });

  test("responds to HEAD with its headers, and ends the implementation", async () => {
    const { promise: ended, resolve: end } = Promise.withResolvers<string>();
    await using server = await serve(version, {
      async *list(_request, { signal }) {
        try {
          yield { text: "a" };
          yield { text: "b" };
        } finally {
          end(`ended ${signal.aborted}`);
        }
      },
    });
    const response = await server.request("HEAD", "/streams/s/items");
    expect(response).toMatchObject({ status: 200, headers: { "content-type": "application/x-ndjson" } });
    expect(response.headers["content-length"]).toBeUndefined();
    expect(await response.read()).toEqual({ body: "", isComplete: true });
    expect(await ended).toMatch(/^ended/);
  });

  test("sends comments while there are no messages, in an event stream", async () => {
    const { promise: seen, resolve: see } = Promise.withResolvers<void>();
    await using server = await serve(
      version,
      {
        async *list() {
          yield { text: "a" };
          await seen;
          yield { text: "b" };
        },
      },
      { streams: { heartbeatMs: 5 } },
    );
    const response = await server.request("GET", "/streams/s/items", { headers: { accept: "text/event-stream" } });
    expect(response.headers["cache-control"]).toBe("no-cache");
    expect(response.headers["x-accel-buffering"]).toBe("no");
    let body = "";
    for await (const piece of response.chunks) {
      body += piece.toString();
      if (body.includes(":\n\n:\n\n")) {
        see();
      }
    }
    expect(body).toMatch(/^data: \{"text":"a"\}\n\n(?::\n\n){2,}data: \{"text":"b"\}\n\n$/);
  });

  test("sends each message when it is available, not with the next one", async () => {
    const { promise: seen, resolve: see } = Promise.withResolvers<void>();
    await using server = await serve(version, {
      async *list() {
        yield { text: "a" };
        await seen;
        yield { text: "b" };
      },
    });
    const response = await server.request("GET", "/streams/s/items");
    const pieces: string[] = [];
    for await (const piece of response.chunks) {
      pieces.push(piece.toString());
      see();
    }
    expect(pieces).toEqual(['{"text":"a"}\n', '{"text":"b"}\n']);
  });

  test("is cancelled if the client disconnects: the signal is aborted, and the generator ends", async () => {
    const { promise: aborted, resolve: abort } = Promise.withResolvers<string>();
    const { promise: ended, resolve: end } = Promise.withResolvers<string>();
    await using server = await serve(version, {
      async *list(_request, { signal }) {
        try {
          yield { text: "a" };
          await new Promise<void>((resolve) => {
            signal.addEventListener("abort", () => {
              abort("aborted");
              resolve();
            });
          });
          yield { text: "nobody reads this" };
          end("went on");
        } finally {
          end("ended");
        }
      },
    });
    const response = await server.request("GET", "/streams/s/items");
    for await (const _piece of response.chunks) {
      response.disconnect();
      break;
    }
    expect([await aborted, await ended]).toEqual(["aborted", "ended"]);
  });

  test("is cancelled if the client disconnects before the first message", async () => {
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const { promise: returned, resolve: finish } = Promise.withResolvers<string>();
    await using server = await serve(version, {
      list: () => ({
        [Symbol.asyncIterator]: () => ({
          next: () => {
            start();
            return new Promise<never>(() => {});
          },
          return: async () => {
            finish("returned");
            return { done: true as const, value: undefined };
          },
        }),
      }),
    });
    // The HTTP/2 client closes its stream, that of HTTP/1.1 its connection.
    const response = server.request("GET", "/streams/s/items").catch(() => "no answer");
    await started;
    await server[Symbol.asyncDispose]();
    expect([await returned, await response]).toEqual(["returned", "no answer"]);
  });

  test("is cancelled at its first message if the client has disconnected", async () => {
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const { promise: disconnected, resolve: go } = Promise.withResolvers<void>();
    const { promise: ended, resolve: end } = Promise.withResolvers<string>();
    await using server = await serve(version, {
      async *list(_request, { signal }) {
        signal.addEventListener("abort", () => go());
        start();
        try {
          await disconnected;
          yield { text: "a" };
          yield { text: "b" };
          end("went on");
        } finally {
          end("ended");
        }
      },
    });
    const response = server.request("GET", "/streams/s/items").catch(() => "no answer");
    await started;
    await server[Symbol.asyncDispose]();
    expect([await ended, await response]).toEqual(["ended", "no answer"]);
  });

  test("applies backpressure if the client reads slowly", async () => {
    let made = 0;
    const text = "x".repeat(10_000);
    await using server = await serve(version, {
      async *list() {
        for (; made < 20_000; made++) {
          yield { text };
        }
      },
    });
    const response = await server.request("GET", "/streams/s/items");
    const iterator = response.chunks[Symbol.asyncIterator]();
    await iterator.next();
    // It is blocked when it makes no progress between two checks; data in flight is in the sockets' buffers.
    let before = -1;
    while (before !== made) {
      before = made;
      for (let turns = 0; turns < 2000; turns++) {
        await new Promise(setImmediate);
      }
    }
    expect(made).toBeGreaterThan(0);
    expect(made).toBeLessThan(5000);
    response.disconnect();
  });

  test("ends at its deadline, before or after the first message", async () => {
    await using server = await serve(version, {
      async *list({ count }, { timeoutMs }) {
        for (let i = 0; i < count; i++) {
          yield { count: Math.sign(timeoutMs() ?? -1) };
        }
        await new Promise(() => {});
      },
    });
    const headers = { "connect-timeout-ms": "300" };
    const late = await server.request("GET", "/streams/s/items", { headers });
    expect([late.status, (await late.read()).isComplete]).toEqual([504, true]);
    const later = await server.request("GET", "/streams/s/items?count=1", { headers });
    expect(later.status).toBe(200);
    expect(await later.read()).toEqual({
      body: '{"count":1}\n{"error":{"code":"deadline_exceeded","message":"the operation timed out"}}\n',
      isComplete: false,
    });
  });

  test("passes through gate and interceptors, which share its context values and can wrap its messages", async () => {
    const key = createContextKey("nobody");
    const order: string[] = [];
    const wrap: Interceptor = (next) => async (request) => {
      order.push(`interceptor ${request.stream} ${request.contextValues.get(key)}`);
      const response = await next(request);
      if (!response.stream) {
        return response;
      }
      response.header.set("x-wrapped", "1");
      return {
        ...response,
        message: (async function* () {
          for await (const message of response.message) {
            yield Object.assign(message, { text: `${String((message as { text?: string }).text)}!` });
          }
        })(),
      };
    };
    await using server = await serve(
      version,
      {
        async *list(_request, { values }) {
          order.push("implementation");
          yield { text: values.get(key) };
        },
      },
      {
        contextValues: () => createContextValues().set(key, "somebody"),
        requestGate: ({ values }) => {
          order.push(`gate ${values.get(key)}`);
          values.set(key, "guest");
        },
        interceptors: [wrap],
      },
    );
    const response = await server.request("GET", "/streams/s/items");
    expect(response.headers["x-wrapped"]).toBe("1");
    expect((await response.read()).body).toBe('{"text":"guest!"}\n');
    expect(order).toEqual(["gate somebody", "interceptor true guest", "implementation"]);
  });
});

describe.each<[HttpVersion]>([["HTTP/1.1"], ["HTTP/2"]])("a client stream over %s", (version) => {
  const sum: Implementation = {
    async sum(requests) {
      let count = 0;
      let text = "";
      for await (const request of requests) {
        count += request.count;
        text += request.text;
      }
      return { count, text };
    },
  };
  const send = async (
    server: Streams,
    body: Iterable<Uint8Array> | string,
    headers: Record<string, string> = ndjson,
  ) => {
    const response = await server.request("POST", "/streams/sum", { headers, body });
    return [response.status, JSON.parse((await response.read()).body)];
  };

  test.each([
    ['{"count":1}\n{"count":2}\n', { count: 3 }],
    ['{"count":1}\r\n\n  \r\n{"count":2}', { count: 3 }],
    ["", {}],
    ["\n\n", {}],
    ['{"text":"\u00fc"}', { text: "\u00fc" }],
  ])("reads a message from each line: %j", async (body, expected) => {
    await using server = await serve(version, sum);
    expect(await send(server, body)).toEqual([200, expected]);
    // Independent of how the body is chunked.
    const bytes = Array.from(Buffer.from(body), (byte) => Buffer.of(byte));
    expect(await send(server, bytes)).toEqual([200, expected]);
  });

  test.each([
    ['{"count":1}\n\n{"count":"x"}\n', "line 3: count: must be a 32-bit integer"],
    ['{"count":1}\n{"count":2', "line 2: not valid JSON: unexpected end (column 11)"],
    ['{"count":1} {"count":2}', "line 1: not valid JSON: unexpected text after the end of the document (column 13)"],
    ['{"count":1,"count":2}', "line 1: count: duplicate key"],
    ["[]", "line 1: must be an object"],
  ])("has line and path in the error of an invalid message: %j", async (body, message) => {
    await using server = await serve(version, sum);
    expect(await send(server, body)).toMatchObject([400, { code: "invalid_argument", message }]);
  });

  test("has a request error, regardless of the implementation's own error", async () => {
    await using server = await serve(version, {
      async sum(requests) {
        try {
          await collect(requests);
        } catch (error) {
          throw new Error("wrapped", { cause: error });
        }
        return {};
      },
    });
    expect(await send(server, "{")).toMatchObject([400, { code: "invalid_argument", reason: "invalid_json" }]);
  });

  test("has a size limit for each line, not in total", async () => {
    await using server = await serve(version, sum, { readMaxBytes: 20 });
    expect(await send(server, '{"count":1}\n'.repeat(100))).toEqual([200, { count: 100 }]);
    expect(await send(server, `{"count":1}\n{"text":"${"x".repeat(20)}"}`)).toEqual([
      413,
      { code: "resource_exhausted", reason: "payload_too_large", message: "line 2: longer than 20 bytes" },
    ]);
  });

  test.each([
    [{ "content-type": "text/plain" }, 415],
    [{ "content-type": "application/json; charset=utf-16" }, 415],
    [{ "content-type": "application/x-ndjson; charset=utf-16" }, 415],
    [{ "content-type": "application/jsonl; charset=UTF-8" }, 200],
    [{}, 415],
  ])("is %j: %i", async (headers, status) => {
    await using server = await serve(version, sum);
    const response = await server.request("POST", "/streams/sum", { headers, body: "{}" });
    expect([response.status, response.headers["accept-post"]]).toEqual([
      status,
      status === 415 ? "application/x-ndjson, application/json" : undefined,
    ]);
  });

  const json = { "content-type": "application/json" };

  test.each([
    ['[{"count":1},{"count":2}]', { count: 3 }],
    [' \n[ {"count":1}\r\n,\t{"text":"],[}{\\",\\\\"} ] \n', { count: 1, text: '],[}{",\\' }],
    ["[]", {}],
    [" [ ] ", {}],
    [" ", {}],
    ['[{"text":"\u00fc"}]', { text: "\u00fc" }],
  ])("reads a message from each item of a JSON array: %j", async (body, expected) => {
    await using server = await serve(version, sum);
    expect(await send(server, body, json)).toEqual([200, expected]);
    // Independent of how the body is chunked.
    const bytes = Array.from(Buffer.from(body), (byte) => Buffer.of(byte));
    expect(await send(server, bytes, json)).toEqual([200, expected]);
  });

  test.each([
    ['[{"count":1},\n{"count":"x"}]', "item 2: count: must be a 32-bit integer"],
    [
      '[{"count":1} {"count":2}]',
      "item 1: not valid JSON: unexpected text after the end of the document (line 1, column 13)",
    ],
    ["[,{}]", "item 1: empty; a JSON document was expected"],
    ["[{},]", "item 2: empty; a JSON document was expected"],
    ["[{]}]", "item 1: not valid JSON: a key in double quotes was expected (line 1, column 2)"],
    ['[{"count":1}', "the body is not valid JSON: unexpected end"],
    ["[{}] []", "the body is not valid JSON: unexpected text after the end of the array"],
    ['{"count":1}', "the body is not valid JSON: a JSON array was expected"],
  ])("has the item in the error of an invalid array: %j", async (body, message) => {
    await using server = await serve(version, sum);
    expect(await send(server, body, json)).toMatchObject([400, { code: "invalid_argument", message }]);
  });

  test("has a size limit for each item of an array, not in total", async () => {
    await using server = await serve(version, sum, { readMaxBytes: 20 });
    expect(await send(server, `[${Array(100).fill('{"count":1}').join(", ")}]`, json)).toEqual([200, { count: 100 }]);
    expect(await send(server, `[{"count":1},{"text":"${"x".repeat(20)}"}]`, json)).toEqual([
      413,
      { code: "resource_exhausted", reason: "payload_too_large", message: "item 2: longer than 20 bytes" },
    ]);
  });

  test("passes on an item of an array before the next one arrives", async () => {
    const received = Promise.withResolvers<void>();
    await using server = await serve(version, {
      async sum(requests) {
        let count = 0;
        for await (const request of requests) {
          count += request.count;
          received.resolve();
        }
        return { count };
      },
    });
    async function* body() {
      yield Buffer.from('[{"count":1},');
      await received.promise;
      yield Buffer.from('{"count":2}]');
    }
    const response = await server.request("POST", "/streams/sum", { headers: json, body: body() });
    expect((await response.read()).body).toBe('{"count":3}');
  });

  test("takes no query, and responds like a unary call", async () => {
    await using server = await serve(version, sum);
    expect((await server.request("POST", "/streams/sum?x=1", { headers: ndjson, body: "" })).status).toBe(400);
    const accept = "application/x-ndjson";
    const refused = await server.request("POST", "/streams/sum", { headers: { ...ndjson, accept }, body: "" });
    expect(refused.status).toBe(406);
  });

  test("reaches the implementation while it is sent, which can respond before its end", async () => {
    await using server = await serve(version, {
      async sum(requests) {
        for await (const { text } of requests) {
          return { text };
        }
        return {};
      },
    });
    const { promise: responded, resolve: setResponded } = Promise.withResolvers<void>();
    const response = await server.request("POST", "/streams/sum", {
      headers: ndjson,
      body: (async function* () {
        yield '{"text":"first"}\n';
        await responded;
      })(),
    });
    expect((await response.read()).body).toBe('{"text":"first"}');
    setResponded();
  });

  test("fails if the client disconnects", async () => {
    const { promise: failed, resolve: fail } = Promise.withResolvers<string>();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    await using server = await serve(version, {
      async sum(requests, { signal }) {
        try {
          for await (const _request of requests) {
            start();
          }
        } catch (error) {
          fail(`${String(error)} ${signal.aborted}`);
        }
        return {};
      },
    });
    const response = server
      .request("POST", "/streams/sum", {
        headers: ndjson,
        body: (async function* () {
          yield '{"text":"first"}\n';
          await new Promise(() => {});
        })(),
      })
      .catch(() => "no answer");
    await started;
    await server[Symbol.asyncDispose]();
    expect(await failed).toMatch(/the connection was closed before the end of the body/);
    await response;
  });
});

test("the rest of an HTTP/2 request can still be sent after the response", async () => {
  await using server = await serve("HTTP/2", {
    async uploadNamed(chunks) {
      for await (const { chunk } of chunks) {
        return { bytes: BigInt(Math.sign(chunk?.data.length ?? 0)) };
      }
      return {};
    },
  });
  const session = connect(`http://127.0.0.1:${(server.app.server.address() as { port: number }).port}`);
  const request = session.request({ ":method": "PUT", ":path": "/streams/upload/n" }, { endStream: false });
  const closed = once(request, "close");
  // More than the flow-control window of a stream.
  request.end(Buffer.alloc(200_000));
  request.resume();
  await closed;
  expect(request.rstCode).toBe(0);
  session.close();
});

test("stream formats do not apply to unary calls", async () => {
  await using server = await serveStreams("HTTP/1.1", {
    routes: (router) => router.service(ThingsService, { sendForm: () => ({}), openThing: () => ({}) }),
  });
  const body = '{"id":"1"}';
  const json = { "content-type": "application/json" };
  const open = (headers: Record<string, string>) => server.request("PUT", "/things/open", { headers, body });
  expect((await open({ ...json, accept: "application/x-ndjson" })).status).toBe(406);
  expect((await open({ ...json, accept: "text/event-stream" })).status).toBe(406);
  expect((await open(ndjson)).status).toBe(415);
  const response = await open({ ...json, accept: "text/event-stream, application/json" });
  expect([response.headers["content-type"], (await response.read()).body]).toEqual(["application/json", '{"tags":[]}']);
});

describe("a bidirectional stream", () => {
  const echo: Implementation = {
    async *chat(requests) {
      for await (const { text } of requests) {
        yield { text: text.toUpperCase() };
      }
    },
  };

  test("responds to each line while the next is awaited, over HTTP/2", async () => {
    await using server = await serve("HTTP/2", echo);
    const lines: { resolve: (line: string) => void }[] = [];
    const next = (): Promise<string> => {
      const { promise, resolve } = Promise.withResolvers<string>();
      lines.push({ resolve });
      return promise;
    };
    const response = await server.request("POST", "/streams/chat", {
      headers: ndjson,
      body: (async function* () {
        yield '{"text":"a"}\n';
        yield await next();
      })(),
    });
    expect(response).toMatchObject({ status: 200, headers: { "content-type": "application/x-ndjson" } });
    const pieces: string[] = [];
    for await (const piece of response.chunks) {
      pieces.push(piece.toString());
      lines.shift()?.resolve('{"text":"b"}\n');
    }
    expect(pieces).toEqual(['{"text":"A"}\n', '{"text":"B"}\n']);
  });

  test("has an in-band error for an invalid line", async () => {
    await using server = await serve("HTTP/2", echo);
    const response = await server.request("POST", "/streams/chat", {
      headers: ndjson,
      body: '{"text":"a"}\n{"x":1}\n',
    });
    expect(await response.read()).toEqual({
      body: expect.stringMatching(
        /^\{"text":"A"\}\n\{"error":\{"code":"invalid_argument","message":"line 2: x: unknown; [^\n]*\}\}\n$/,
      ),
      isComplete: false,
    });
  });

  test("is NDJSON, also if Accept prefers other types", async () => {
    await using server = await serve("HTTP/2", echo);
    const accept = "text/event-stream, application/json";
    const response = await server.request("POST", "/streams/chat", { headers: { ...ndjson, accept }, body: "{}" });
    expect(response.status).toBe(406);
  });

  test("is rejected over HTTP/1.1", async () => {
    await using server = await serve("HTTP/1.1", echo);
    const response = await server.request("POST", "/streams/chat", { headers: ndjson, body: "{}" });
    expect([response.status, JSON.parse((await response.read()).body)]).toEqual([
      505,
      {
        code: "unimplemented",
        reason: "http_version_not_supported",
        message: "a bidirectional stream requires HTTP/2",
      },
    ]);
  });
});

type StreamVector = {
  dialect: string;
  messages: { text: string }[];
  error?: { code: Code; message: string };
  expect: { body: string; contentType: string };
};

describe("the formats of other gateways", () => {
  const dialects: Record<string, [accept: string, options: Omit<FastifyGatewayPluginOptions, "routes">]> = {
    "json-array": ["application/json", {}],
    sse: ["text/event-stream", {}],
    "aspnet-ndjson": ["*/*", { errors: "status", streams: { json: "lines", preferred: "json" } }],
    "grpc-gateway": ["*/*", { errors: "status", streams: { json: "results", preferred: "json" } }],
  };
  const gateway: [string, StreamVector] = [
    "grpc-gateway",
    {
      dialect: "grpc-gateway",
      messages: [{ text: "a" }],
      error: { code: Code.NotFound, message: "gone" },
      expect: {
        body: '{"result":{"text":"a"}}\n{"error":{"code":5,"message":"gone","details":[]}}\n',
        contentType: "application/json",
      },
    },
  ];

  test.each<[string, StreamVector]>([...vectors<StreamVector>("stream"), gateway])("%s", async (_id, vector) => {
    const { dialect, messages, error, expect: expected } = vector;
    const [accept, options] = dialects[dialect] ?? ["", {}];
    await using server = await serve(
      "HTTP/1.1",
      {
        async *list() {
          yield* messages;
          if (error !== undefined) {
            throw new ConnectError(error.message, error.code);
          }
        },
      },
      options,
    );
    const response = await server.request("GET", "/streams/s/items", { headers: { accept } });
    expect(response.headers["content-type"]).toBe(expected.contentType);
    expect(await response.read()).toEqual({ body: expected.body, isComplete: error === undefined });
  });
});

test.each([
  [BodilessStreamService, /BodilessStreamService.*a client stream must have a body/],
  [NoContentStreamService, /NoContentStreamService.*a server stream must have a response body/],
  [
    FormStreamService,
    /FormStreamService.*a stream of requests must be application\/x-ndjson or application\/json, not application\/x-www-form-urlencoded/,
  ],
])("rejects at start-up %s", (service, problem) => {
  expect(() => createGateway({ routes: (router) => router.service(service, {}) })).toThrow(problem);
});
