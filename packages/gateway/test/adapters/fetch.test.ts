import { createContextKey, createContextValues, type ConnectRouter } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { createFetchHandler, type FetchHandlerOptions } from "../../src/adapters/fetch/index.ts";
import { takeEncodedRequest, type EncodedRequest } from "../../src/index.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";

const json = { "content-type": "application/json" };
const ndjson = { "content-type": "application/x-ndjson" };

function createRequest(method: string, path: string, init: RequestInit = {}): Request {
  return new Request(`http://api.example${path}`, { method, ...init });
}

/** A body whose chunks the test sends one by one. */
function createBody(): {
  readonly stream: ReadableStream<Uint8Array>;
  readonly send: (text: string) => void;
  readonly end: () => void;
} {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  return {
    stream: readable,
    send: (text) => void writer.write(new TextEncoder().encode(text)),
    end: () => void writer.close(),
  };
}

function serveStreams(
  implementation: Parameters<typeof register>[1],
  options: Partial<FetchHandlerOptions> = {},
): (request: Request) => Response | Promise<Response> {
  return createFetchHandler({ ...options, routes: (router) => register(router, implementation) });
}

function register(router: ConnectRouter, implementation: Parameters<typeof router.service<typeof StreamsService>>[1]) {
  router.service(StreamsService, implementation);
}

async function readText(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const { value } = await reader.read();
  return new TextDecoder().decode(value);
}

test("a synchronous call is answered without a promise", () => {
  const handler = createFetchHandler({
    routes: (router) => router.service(ThingsService, { getHeaders: () => ({ count: 3 }) }),
  });
  expect(handler(createRequest("GET", "/things/headers"))).toBeInstanceOf(Response);
});

test("messages are sent while the request is being received, with httpVersion 2", async () => {
  const handler = serveStreams(
    {
      async *chat(items) {
        for await (const { text } of items) {
          yield { text: `${text}!` };
        }
      },
    },
    { httpVersion: "2" },
  );
  const { stream, send, end } = createBody();
  send('{"text":"one"}\n');
  const init = { headers: ndjson, body: stream, duplex: "half" } as RequestInit;
  const { status, body } = await handler(createRequest("POST", "/streams/chat", init));
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  expect([status, await readText(reader)]).toEqual([200, '{"text":"one!"}\n']);
  send('{"text":"two"}\n');
  expect(await readText(reader)).toBe('{"text":"two!"}\n');
  end();
  expect(await reader.read()).toMatchObject({ done: true });
});

test("bidirectional streams are rejected over HTTP/1.1, which is the default", async () => {
  const handler = serveStreams({ async *chat() {} });
  const { status } = await handler(createRequest("POST", "/streams/chat", { headers: ndjson, body: "{}" }));
  expect(status).toBe(505);
});

test("no message is read before the client asks for it, and cancelling the body ends the call", async () => {
  const ended = Promise.withResolvers<void>();
  let yielded = 0;
  const handler = serveStreams({
    async *list() {
      try {
        for (;;) {
          yield { count: ++yielded };
        }
      } finally {
        ended.resolve();
      }
    },
  });
  const { body } = await handler(createRequest("GET", "/streams/s/items"));
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await reader.read();
  expect(yielded).toBeLessThanOrEqual(3);
  await reader.cancel();
  await ended.promise;
});

test("the signal of a call is aborted with that of its request", async () => {
  const controller = new AbortController();
  const called = Promise.withResolvers<AbortSignal>();
  const handler = createFetchHandler({
    routes: (router) =>
      router.service(ThingsService, {
        getHeaders: (_request, { signal }) => {
          called.resolve(signal);
          return new Promise<never>((_resolve, reject) =>
            signal.addEventListener("abort", () => reject(signal.reason)),
          );
        },
      }),
  });
  const response = handler(createRequest("GET", "/things/headers", { signal: controller.signal }));
  const signal = await called.promise;
  expect(signal.aborted).toBe(false);
  controller.abort();
  await response;
  expect(signal.aborted).toBe(true);
});

test("context values get the arguments that the server passes with the request", async () => {
  const kTenant = createContextKey("");
  const handler = createFetchHandler({
    contextValues: (request, env: { tenant: string }) =>
      createContextValues().set(kTenant, `${env.tenant} ${request.method}`),
    routes: (router) =>
      router.service(ThingsService, { openThing: (_request, { values }) => ({ id: values.get(kTenant) }) }),
  });
  const request = createRequest("PUT", "/things/open", { headers: json, body: '{"id":"1"}' });
  const response = await handler(request, { tenant: "acme" });
  expect(await response.json()).toMatchObject({ id: "acme PUT" });
});

test("all headers of a request can be read, and posted to a thread with its encoded message", async () => {
  const names = new Set<string>();
  let encoded: EncodedRequest | undefined;
  const handler = createFetchHandler({
    deferred: [ThingsService.method.echoThing],
    routes: (router) =>
      router.service(ThingsService, {
        echoThing(request, { requestHeader }) {
          encoded = structuredClone(takeEncodedRequest(request));
          requestHeader.forEach((_value, name) => names.add(name));
          return {};
        },
      }),
  });
  const headers = new Headers({ ...json, "x-own": "1" });
  await handler(createRequest("POST", "/things/echo", { headers, body: "{}" }));
  expect([...names]).toEqual(["content-type", "x-own"]);
  expect(encoded?.format).toMatchObject({ headers: { "content-type": "application/json", "x-own": "1" } });
});

test.each([
  ["of unknown length", {}],
  ["longer than its Content-Length", { "content-length": "2" }],
])("a body over the limit is 413: %s", async (_what, headers) => {
  const handler = createFetchHandler({
    readMaxBytes: 10,
    routes: (router) => router.service(ThingsService, { echoThing: ({ thing }) => ({ thing }) }),
  });
  const init = { headers: { ...json, ...headers }, body: JSON.stringify({ text: "x".repeat(20) }) };
  expect((await handler(createRequest("POST", "/things/echo", init))).status).toBe(413);
});

test.each([{}, { "content-length": "20" }])(
  "a body that fails is 400, and one that was read is 500: %j",
  async (length) => {
    const handler = createFetchHandler({
      routes: (router) => router.service(ThingsService, { echoThing: ({ thing }) => ({ thing }) }),
    });
    const headers = { ...json, ...length };
    const failing = new ReadableStream({ pull: (controller) => controller.error(new Error("the client has left")) });
    const init = { headers, body: failing, duplex: "half" } as RequestInit;
    const failed = await handler(createRequest("POST", "/things/echo", init));
    expect([failed.status, await failed.json()]).toMatchObject([
      400,
      { code: "invalid_argument", reason: "incomplete_body" },
    ]);
    const request = createRequest("POST", "/things/echo", { headers, body: "{}" });
    await request.text();
    const read = await handler(request);
    expect([read.status, await read.json()]).toMatchObject([500, { code: "internal", reason: "body_already_read" }]);
  },
);

test("the error of a failed stream contains nothing of the implementation's", async () => {
  const handler = serveStreams({
    async *list() {
      yield { count: 1 };
      throw new Error("secret of the inside");
    },
  });
  const { body } = await handler(createRequest("GET", "/streams/s/items"));
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  expect(await readText(reader)).toBe('{"count":1}\n');
  expect(await readText(reader)).toBe('{"error":{"code":"internal","message":"internal error"}}\n');
  await expect(reader.read()).rejects.toThrow("the stream of responses has ended with an error");
});
