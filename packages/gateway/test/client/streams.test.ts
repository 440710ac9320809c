import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type ServiceImpl, type Transport } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import type { FastifyGatewayPluginOptions } from "../../src/adapters/fastify/index.ts";
import { createRestTransport, type RestTransportOptions } from "../../src/client/index.ts";
import { presets } from "../../src/index.ts";
import { AnysService } from "../gen/gatewaytest/v1/anys_pb.ts";
import { ItemSchema, RawService, StreamsService, type Item } from "../gen/gatewaytest/v1/streams_pb.ts";
import { serve } from "../serve.ts";
import { collect } from "../serve-streams.ts";
import { callStream, createCapturing, errorOf, iterate } from "./captured.ts";

type Implementation = Partial<ServiceImpl<typeof StreamsService>>;

/** A server of the service, and a client that calls it through the REST transport. */
async function start(
  implementation: Implementation,
  options: Omit<FastifyGatewayPluginOptions, "routes"> = {},
  client: Partial<RestTransportOptions> = {},
) {
  const server = await serve({ ...options, routes: (router) => router.service(StreamsService, implementation) });
  const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}`, ...client });
  return {
    transport,
    client: createClient(StreamsService, transport),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

const items = [{ text: "a", count: 1 }, {}, { text: '"\\\n,]}', shelf: "ü世😀" }].map((item) =>
  create(ItemSchema, item),
);

/** Sends Accept with this media type, so that the server selects its format. */
const accepting =
  (mediaType: string): typeof fetch =>
  (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("accept", mediaType);
    return fetch(input, { ...init, headers });
  };

describe.each<[name: string, accept: string, options: Omit<FastifyGatewayPluginOptions, "routes">]>([
  ["NDJSON", "application/x-ndjson", {}],
  ["server-sent events", "text/event-stream", { streams: { heartbeatMs: 1 } }],
  ["a JSON array", "application/json", {}],
  ["lines of results", "application/json", presets.grpcGateway],
  ["NDJSON, with errors of Google's", "application/x-ndjson", presets.google],
  ["server-sent events, with errors of Google's", "text/event-stream", presets.google],
  ["a JSON array, as Google's", "application/json", presets.google],
  ["lines", "application/json", { streams: { json: "lines" } }],
])("a server stream as %s", (name, accept, options) => {
  test("has all messages", async () => {
    await using server = await start({ list: () => iterate(items) }, options, { fetch: accepting(accept) });
    expect(await collect(server.client.list({ shelf: "s" }))).toEqual(items);
  });

  test("can be empty", async () => {
    await using server = await start({ list: () => iterate([]) }, options, { fetch: accepting(accept) });
    expect(await collect(server.client.list({ shelf: "s" }))).toEqual([]);
  });

  test("fails with the error behind its messages", async () => {
    await using server = await start(
      {
        async *list() {
          yield* items;
          throw new ConnectError("no more", Code.OutOfRange);
        },
      },
      options,
      { fetch: accepting(accept) },
    );
    const received: unknown[] = [];
    const error = await errorOf(
      (async () => {
        for await (const item of server.client.list({ shelf: "s" })) {
          received.push(item);
        }
      })(),
    );
    // In the last one the error has the form of a message.
    expect(received.slice(0, 3)).toEqual(items);
    expect([error.code, error.rawMessage]).toEqual(
      name === "lines"
        ? [Code.Unavailable, "the connection failed: TypeError: terminated"]
        : [Code.OutOfRange, "no more"],
    );
  });

  test("fails before its first message with the error of the response", async () => {
    await using server = await start(
      {
        list() {
          throw new ConnectError("none", Code.NotFound);
        },
      },
      options,
      { fetch: accepting(accept) },
    );
    const error = await errorOf(collect(server.client.list({ shelf: "s" })));
    expect([error.code, error.rawMessage]).toEqual([Code.NotFound, "none"]);
  });
});

/** A response whose body arrives in these pieces. */
function inPieces(contentType: string, pieces: readonly (string | Uint8Array)[]): Response {
  const body = ReadableStream.from(pieces.map((piece) => Buffer.from(piece)));
  return new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>, { headers: { "content-type": contentType } });
}

const list = (contentType: string, pieces: readonly (string | Uint8Array)[]) =>
  callStream(
    createCapturing(() => inPieces(contentType, pieces)),
    StreamsService.method.list,
    [{ shelf: "s" }],
  );

const objects = items.map((item) => JSON.stringify({ text: item.text, count: item.count, shelf: item.shelf }));

test.each([
  [[], 0],
  [[{ count: 1 }], 1],
  [[{ count: 1 }, { count: 2 }], 3],
])("a client stream of %j is sent as an array if the method takes no lines", async (messages, count) => {
  const rules = [{ selector: "gatewaytest.v1.StreamsService.Sum", options: { consumes: ["application/json"] } }];
  const sum = async (requests: AsyncIterable<Item>) => {
    const all = await collect(requests);
    return { count: all.reduce((total, each) => total + each.count, 0) };
  };
  await using server = await start({ sum }, { rules }, { rules });
  expect(await server.client.sum(iterate(messages))).toMatchObject({ count });
});

test.each<[name: string, contentType: string, body: string]>([
  ["an array", "application/json; charset=utf-8", `[${objects.join(",")}]`],
  ["an array over several lines", "application/json", ` [ \n${objects.join("\n,\r\n")}\n]\n`],
  ["results without line breaks", "application/json", objects.map((each) => `{"result":${each}}`).join("")],
  ["values without line breaks", "application/json", objects.join("")],
  ["lines with blank ones", "application/jsonl", `\n${objects.join("\r\n\n")}`],
  ["wrapped lines", "application/x-ndjson", objects.map((each) => `{"result":${each}}\n`).join("")],
  [
    "events",
    "text/event-stream",
    `: c\r\n\r\n${objects.map((each) => `event: message\r\nid: 1\r\ndata: ${each}\r\n\r\n`).join("")}`,
  ],
  ["events with old line breaks", "text/event-stream", objects.map((each) => `data:${each}\r\r`).join("")],
  [
    "events of several lines",
    "text/event-stream",
    objects.map((each) => `data: ${each.replace("{", "{\ndata:")}\n\n`).join(""),
  ],
])("%s can be cut anywhere", async (_name, contentType, body) => {
  const bytes = Buffer.from(body);
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.subarray(at * size, (at + 1) * size),
    );
    expect(await list(contentType, pieces)).toEqual(items);
  }
});

test.each<[name: string, contentType: string, body: string, code: Code, message: string]>([
  [
    "an array that is not closed",
    "application/json",
    `[{"text":"a"}`,
    Code.DataLoss,
    "can't read the stream: unexpected end",
  ],
  ["a message that is cut", "application/json", `{"text":"a`, Code.DataLoss, "can't read the stream: unexpected end"],
  [
    "more behind an array",
    "application/json",
    `[] {"text":"a"}`,
    Code.DataLoss,
    "can't read the stream: unexpected text after the end of the array",
  ],
  [
    "a line that is cut",
    "application/x-ndjson",
    `{"text":"a`,
    Code.Internal,
    "can't read the response: it is not JSON",
  ],
  [
    "another type",
    "text/html",
    "<h1>",
    Code.Internal,
    "can't read the response: it is text/html, not a stream of JSON",
  ],
  [
    "an error of Google in an array",
    "application/json",
    `[{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}]`,
    Code.NotFound,
    "m",
  ],
  [
    "an error of grpc-gateway",
    "application/json",
    `{"error":{"code":5,"message":"m","details":[]}}`,
    Code.NotFound,
    "m",
  ],
])("%s fails the call", async (_name, contentType, body, code, message) => {
  const error = await errorOf(list(contentType, [body]));
  expect([error.code, error.rawMessage]).toEqual([code, message]);
});

test("a stream of a field has values that are no objects", async () => {
  const transport = createCapturing(() => inPieces("application/json", [`"a" "b"\n`, `"c`, `"`]), {
    rules: [
      {
        selector: "gatewaytest.v1.StreamsService.List",
        pattern: { case: "get", value: "/texts" },
        responseBody: "text",
      },
    ],
  });
  const texts = await callStream(transport, StreamsService.method.list, [{}]);
  expect(texts.map((item) => (item as { text?: string }).text)).toEqual(["a", "b", "c"]);
});

test("integers beyond 2^53 are exact in wrapped messages", async () => {
  const body = `{"result":{"thing":{"large":-9007199254740993,"ratio":1.5}}}\n`;
  const capturing = createCapturing(() => inPieces("application/json", [body]));
  const messages = await callStream(capturing, AnysService.method.watchParcel, [{}]);
  expect(messages).toMatchObject([{ thing: { large: -9007199254740993n, ratio: 1.5 } }]);
});

test("fields that are headers are set in the first message", async () => {
  await using server = await start({
    async *list() {
      yield { text: "a", version: "v1" };
      yield { text: "b" };
    },
  });
  let header: string | null = null;
  const received = await collect(
    server.client.list({ shelf: "s" }, { onHeader: (headers) => (header = headers.get("x-version")) }),
  );
  expect(received).toMatchObject([{ version: "v1" }, { version: "" }]);
  expect(header).toBe("v1");
});

/** A server whose stream counts its messages, and resolves `cancelled` when it is cancelled. */
async function endless(client: Partial<RestTransportOptions> = {}) {
  const { promise: cancelled, resolve } = Promise.withResolvers<void>();
  let sent = 0;
  const server = await start(
    {
      async *list(_request, { signal }) {
        signal.addEventListener("abort", () => resolve());
        for (;;) {
          sent++;
          yield { text: "x".repeat(100_000) };
        }
      },
    },
    {},
    client,
  );
  return {
    ...server,
    cancelled,
    sent: () => sent,
    open: (signal?: AbortSignal, timeoutMs?: number) => openList(server.transport, signal, timeoutMs),
  };
}

function openList(transport: Transport, signal?: AbortSignal, timeoutMs?: number) {
  return transport.stream(StreamsService.method.list, signal, timeoutMs, undefined, iterate([{ shelf: "s" }]));
}

test("the server is cancelled when the messages are abandoned", async () => {
  await using server = await endless();
  for await (const _message of (await server.open()).message) {
    break;
  }
  await expect(server.cancelled).resolves.toBeUndefined();
});

test("the server is cancelled when the signal is aborted", async () => {
  await using server = await endless();
  const controller = new AbortController();
  const { message } = await server.open(controller.signal);
  const error = await errorOf(
    (async () => {
      for await (const _message of message) {
        controller.abort();
      }
    })(),
  );
  expect(error.code).toBe(Code.Canceled);
  await server.cancelled;
});

test("the server is slowed down by a slow reader", async () => {
  await using server = await endless();
  const { message } = await server.open();
  const iterator = message[Symbol.asyncIterator]();
  await iterator.next();
  // Without backpressure the server would send on while nothing is read. Each round trip gives it time to.
  let before = -1;
  while (before !== server.sent()) {
    before = server.sent();
    for (let i = 0; i < 20; i++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  expect(before).toBeLessThan(1000);
  await iterator.return?.();
});

test("a deadline ends a stream", async () => {
  await using server = await endless({ timeoutHeader: "none" });
  const error = await errorOf(
    (async () => {
      for await (const _message of (await server.open(undefined, 200)).message) {
        // Reads until the deadline.
      }
    })(),
  );
  expect([error.code, error.rawMessage]).toEqual([Code.DeadlineExceeded, "the operation timed out"]);
});

describe("a client stream", () => {
  const sum: Implementation = {
    async sum(messages) {
      const received = await collect(messages);
      return {
        count: received.reduce((total, { count }) => total + count, 0),
        text: received.map(({ text }) => text).join(),
      };
    },
  };

  test("is sent as NDJSON", async () => {
    await using server = await start(sum);
    expect(
      await server.client.sum(
        iterate([
          { count: 1, text: "a\n" },
          { count: 2, text: "b" },
        ]),
      ),
    ).toMatchObject({ count: 3, text: "a\n,b" });
    expect(await server.client.sum(iterate([]))).toMatchObject({ count: 0 });
  });

  test("is sent as raw bytes, with the path of its first message", async () => {
    await using server = await start({
      async uploadNamed(messages) {
        const received = await collect(messages);
        const bytes = received.reduce((total, { chunk }) => total + (chunk?.data.length ?? 0), 0);
        return {
          bytes: BigInt(bytes),
          contentType: received[0]?.chunk?.contentType ?? "",
          name: received[0]?.name ?? "",
        };
      },
    });
    const chunk = (data: string) => ({ contentType: "text/csv", data: Buffer.from(data) });
    const uploaded = await server.client.uploadNamed(
      iterate([{ name: "a b", chunk: chunk("1,2\n") }, { chunk: chunk("3") }, { name: "a b", chunk: chunk("4") }]),
    );
    expect(uploaded).toMatchObject({ bytes: 6n, contentType: "text/csv", name: "a b" });
    const error = await errorOf(server.client.uploadNamed(iterate([{ name: "a", chunk: chunk("1") }, { name: "b" }])));
    expect([error.code, error.rawMessage]).toEqual([
      Code.InvalidArgument,
      "the path: must be the same in all messages of the stream, because it is not in the body",
    ]);
  });

  test("fails with the error of the messages", async () => {
    await using server = await start(sum);
    const error = await errorOf(
      server.client.sum(
        (async function* () {
          yield { count: 1 };
          throw new ConnectError("mine", Code.Aborted);
        })(),
      ),
    );
    expect([error.code, error.rawMessage]).toEqual([Code.Aborted, "mine"]);
  });

  test("fails with the error of the server, also while it is sent", async () => {
    await using server = await start({
      sum() {
        throw new ConnectError("enough", Code.ResourceExhausted);
      },
    });
    const error = await errorOf(
      server.client.sum(
        (async function* (): AsyncGenerator<MessageInitShape<typeof ItemSchema>> {
          for (;;) {
            yield { text: "x".repeat(1000) };
            await new Promise((resolve) => setImmediate(resolve));
          }
        })(),
      ),
    );
    expect([Code.ResourceExhausted, Code.Unavailable]).toContain(error.code);
  });

  test("in both directions needs HTTP/2, which fetch does not speak in Node", async () => {
    await using server = await start({ chat: (messages) => messages });
    const error = await errorOf(collect(server.client.chat(iterate([{ text: "a" }]))));
    expect(error.code).toBe(Code.Unimplemented);
  });
});

test("raw bodies are streamed and returned", async () => {
  await using server = await serve({
    routes: (router) => {
      router
        .service(StreamsService, {
          async *download({ name }) {
            yield { contentType: "text/plain", data: Buffer.from(name) };
            yield { data: Buffer.from("!") };
          },
        })
        .service(RawService, { echo: (body) => body, attach: (request) => request });
    },
  });
  const transport = createRestTransport({ baseUrl: `http://127.0.0.1:${server.port}` });
  const chunks = await collect(createClient(StreamsService, transport).download({ name: "n" }));
  expect(Buffer.concat(chunks.map(({ data }) => data)).toString()).toBe("n!");
  expect(chunks[0]?.contentType).toBe("text/plain");
  const body = { contentType: "image/png", data: new Uint8Array([137, 0, 255]) };
  expect(await createClient(RawService, transport).echo(body)).toMatchObject(body);
  const attachment = {
    title: "t",
    numbers: [1, 2],
    data: new Uint8Array([1]),
    files: [body, { ...body, contentType: "a/b" }],
  };
  expect(await createClient(RawService, transport).attach(attachment)).toMatchObject(attachment);
});
