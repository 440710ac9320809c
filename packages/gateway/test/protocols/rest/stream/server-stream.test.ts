import { Code, ConnectError, createContextKey, createContextValues, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { type HttpVersion } from "../../../serve-streams.ts";
import { type Implementation, serve } from "./streams-service.ts";

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
