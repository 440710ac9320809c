import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import { createHook } from "node:async_hooks";
import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { createBrotliDecompress, createGunzip, createZstdDecompress } from "node:zlib";
import { describe, expect, test } from "vitest";
import { StreamsService } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../../../gen/gatewaytest/v1/things_pb.ts";
import type { FastifyGatewayPluginOptions } from "../../../../src/adapters/fastify/index.ts";
import { serveStreams, type HttpVersion, type Streams } from "../../../serve-streams.ts";
import { detectsTruncatedZstd } from "../../../zstd.ts";

type Encoding = "gzip" | "br" | "zstd" | "identity";

const serve = (
  version: HttpVersion,
  implementation: Partial<ServiceImpl<typeof StreamsService>>,
  options: Omit<FastifyGatewayPluginOptions, "routes"> = {},
): Promise<Streams> =>
  serveStreams(version, { ...options, routes: (router) => router.service(StreamsService, implementation) });

const decoders: Record<Exclude<Encoding, "identity">, () => Duplex> = {
  gzip: createGunzip,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** The part of a body that a client has read. */
type Reading = {
  text: string;
  /** Whether the response ended normally. */
  isComplete: boolean;
  /** Whether the compressed data was complete. */
  isWhole: boolean;
};

/** Decodes each chunk as it arrives, and calls back with the text decoded so far. */
async function read(
  pieces: AsyncIterable<Buffer>,
  encoding: Encoding,
  onText: (text: string) => void = () => {},
): Promise<Reading> {
  const reading: Reading = { text: "", isComplete: true, isWhole: true };
  const add = (bytes: Buffer): void => {
    reading.text += bytes.toString();
    onText(reading.text);
  };
  const decoder = encoding === "identity" ? undefined : decoders[encoding]();
  decoder?.on("data", add);
  let decoded: Promise<void> | undefined;
  try {
    for await (const piece of pieces) {
      if (decoder === undefined) {
        add(piece);
      } else {
        // Not awaited: an HTTP/2 client discards unread data when the stream is aborted.
        const { promise, resolve } = Promise.withResolvers<void>();
        decoded = promise;
        decoder.write(piece, () => resolve());
      }
    }
  } catch {
    reading.isComplete = false;
  }
  if (decoder !== undefined) {
    await decoded;
    const { promise: ended, resolve } = Promise.withResolvers<boolean>();
    decoder.on("end", () => resolve(true)).on("error", () => resolve(false));
    decoder.end();
    reading.isWhole = await ended;
  }
  return reading;
}

/** A stream of `count` messages, each created after the previous one was confirmed. */
function confirmed(count: number): {
  implementation: Partial<ServiceImpl<typeof StreamsService>>;
  /** Confirms all messages in the text. */
  confirm: (text: string) => void;
} {
  const confirmations = Array.from({ length: count }, () => Promise.withResolvers<void>());
  async function* texts(): AsyncGenerator<string> {
    for (const [index, { promise }] of confirmations.entries()) {
      yield `message ${index}`;
      await promise;
    }
  }
  return {
    implementation: {
      async *list() {
        for await (const text of texts()) {
          yield { text };
        }
      },
      async *download() {
        for await (const text of texts()) {
          yield { contentType: "text/csv", data: Buffer.from(`${text}\n`) };
        }
      },
    },
    confirm(text) {
      for (const [index, { resolve }] of confirmations.entries()) {
        if (text.includes(`message ${index}`)) {
          resolve();
        }
      }
    },
  };
}

/** Tracks the native handles of zlib, whose memory is freed when they are closed, not when they are garbage-collected. */
function countCompressions(): Disposable & { opened: number; closed: number } {
  const counts = { opened: 0, closed: 0, [Symbol.dispose]: () => void hook.disable() };
  const hook = createHook({
    init(_id, type, _trigger, handle: object) {
      if (type === "ZLIB" && "close" in handle && typeof handle.close === "function") {
        counts.opened++;
        const close = handle.close.bind(handle) as () => void;
        handle.close = () => {
          counts.closed++;
          close();
        };
      }
    },
  }).enable();
  return counts;
}

const list = "/streams/s/items";
const download = "/streams/download/n";

const framings: [name: string, path: string, accept: string, body: string][] = [
  ["NDJSON", list, "application/x-ndjson", '{"text":"message 0"}\n{"text":"message 1"}\n{"text":"message 2"}\n'],
  ["JSON lines", list, "application/jsonl", '{"text":"message 0"}\n{"text":"message 1"}\n{"text":"message 2"}\n'],
  [
    "events",
    list,
    "text/event-stream",
    'data: {"text":"message 0"}\n\ndata: {"text":"message 1"}\n\ndata: {"text":"message 2"}\n\n',
  ],
  ["a JSON array", list, "application/json", '[{"text":"message 0"},{"text":"message 1"},{"text":"message 2"}]'],
  ["a raw body", download, "*/*", "message 0\nmessage 1\nmessage 2\n"],
];

const encodings = ["gzip", "br", "zstd", "identity"] as const;

const versions: HttpVersion[] = ["HTTP/1.1", "HTTP/2"];

describe.each(versions)("over %s", (version) => {
  describe.each(encodings)("a stream in %s", (encoding) => {
    const headers = { "accept-encoding": encoding };
    const contentEncoding = encoding === "identity" ? undefined : encoding;
    /** The number of open compressions for one response. */
    const opened = encoding === "identity" ? 0 : 1;
    const truncatedIsWhole = encoding === "identity" || (encoding === "zstd" && !detectsTruncatedZstd);

    test.each(framings)("delivers each message before the next is created: %s", async (_name, path, accept, body) => {
      const { implementation, confirm } = confirmed(3);
      await using server = await serve(version, implementation);
      const response = await server.request("GET", path, { headers: { ...headers, accept } });
      expect([response.status, response.headers["content-encoding"]]).toEqual([200, contentEncoding]);
      expect(response.headers.vary).toMatch(/Accept-Encoding$/);
      expect(await read(response.chunks, encoding, confirm)).toEqual({ text: body, isComplete: true, isWhole: true });
    });

    test("sends comments while there are no messages", async () => {
      const { promise: seen, resolve: see } = Promise.withResolvers<void>();
      await using server = await serve(
        version,
        {
          async *list() {
            yield { text: "a" };
            await seen;
          },
        },
        { streams: { heartbeatMs: 5 } },
      );
      const response = await server.request("GET", list, { headers: { ...headers, accept: "text/event-stream" } });
      const { text } = await read(response.chunks, encoding, (all) => all.endsWith("\n\n:\n\n:\n\n") && see());
      expect(text).toMatch(/^data: \{"text":"a"\}\n\n(?::\n\n){2,}$/);
    });

    test.each([
      ["application/x-ndjson", '{"text":"a"}\n{"error":{"code":"not_found","message":"gone"}}\n'],
      ["text/event-stream", 'data: {"text":"a"}\n\nevent: error\ndata: {"code":"not_found","message":"gone"}\n\n'],
      ["application/json", '[{"text":"a"},{"error":{"code":"not_found","message":"gone"}}'],
    ])("that fails has an in-band error, and is recognizably incomplete: %s", async (accept, text) => {
      await using server = await serve(version, {
        async *list() {
          yield { text: "a" };
          throw new ConnectError("gone", Code.NotFound);
        },
      });
      const response = await server.request("GET", list, { headers: { ...headers, accept } });
      expect(await read(response.chunks, encoding)).toEqual({ text, isComplete: false, isWhole: truncatedIsWhole });
    });

    test("that fails without an in-band error is aborted", async () => {
      await using server = await serve(version, {
        async *download() {
          yield { contentType: "text/plain", data: Buffer.from("part") };
          throw new ConnectError("gone", Code.NotFound);
        },
      });
      const response = await server.request("GET", download, { headers });
      expect(await read(response.chunks, encoding)).toEqual({
        text: "part",
        isComplete: false,
        isWhole: truncatedIsWhole,
      });
    });

    test("that exceeds its deadline has an in-band error", async () => {
      await using server = await serve(version, {
        async *list() {
          yield { text: "a" };
          await new Promise(() => {});
        },
      });
      const response = await server.request("GET", list, { headers: { ...headers, "connect-timeout-ms": "300" } });
      expect(await read(response.chunks, encoding)).toEqual({
        text: '{"text":"a"}\n{"error":{"code":"deadline_exceeded","message":"the operation timed out"}}\n',
        isComplete: false,
        isWhole: truncatedIsWhole,
      });
    });

    test("is complete: messages larger than any buffer, empty ones, and many", async () => {
      const texts = [randomBytes(300_000).toString("base64"), "x".repeat(300_000), "", "é"];
      const all = [...texts, ...Array.from({ length: 500 }, (_, index) => `small ${index}`)];
      await using server = await serve(version, {
        async *download() {
          for (const text of all) {
            yield { contentType: "text/plain", data: Buffer.from(text) };
          }
        },
      });
      const response = await server.request("GET", download, { headers });
      const { text, ...ends } = await read(response.chunks, encoding);
      expect(ends).toEqual({ isComplete: true, isWhole: true });
      expect(text === all.join("")).toBe(true);
    });

    test("is closed when the client disconnects while a message is awaited", async () => {
      const { promise: ended, resolve: end } = Promise.withResolvers<boolean>();
      using compressions = countCompressions();
      await using server = await serve(version, {
        async *list(_request, { signal }) {
          try {
            yield { text: "a" };
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
          } finally {
            end(signal.aborted);
          }
        },
      });
      const response = await server.request("GET", list, { headers });
      await response.chunks[Symbol.asyncIterator]().next();
      expect(compressions).toMatchObject({ opened, closed: 0 });
      response.disconnect();
      expect(await ended).toBe(true);
      expect(compressions).toMatchObject({ opened, closed: opened });
    });

    test.each([
      ["that ends", undefined],
      ["that fails", new Error("failed")],
    ])("%s has freed its compression", async (_how, error) => {
      using compressions = countCompressions();
      await using server = await serve(version, {
        async *list() {
          yield { text: "a" };
          if (error !== undefined) {
            throw error;
          }
        },
      });
      const response = await server.request("GET", list, { headers });
      expect((await response.read()).isComplete).toBe(error === undefined);
      expect(compressions).toMatchObject({ opened, closed: opened });
    });

    test("applies backpressure if the client stops reading", async () => {
      let made = 0;
      const { promise: ended, resolve: end } = Promise.withResolvers<void>();
      await using server = await serve(version, {
        async *list() {
          try {
            for (; made < 20_000; made++) {
              yield { text: randomBytes(7500).toString("base64") };
            }
          } finally {
            end();
          }
        },
      });
      using compressions = countCompressions();
      const response = await server.request("GET", list, { headers });
      await response.chunks[Symbol.asyncIterator]().next();
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
      await ended;
      expect(compressions).toMatchObject({ opened, closed: opened });
    });

    test("has the same headers for HEAD, which ends the implementation", async () => {
      const { promise: ended, resolve: end } = Promise.withResolvers<string>();
      await using server = await serve(version, {
        async *list() {
          try {
            yield { text: "a" };
            yield { text: "b" };
            end("went on");
          } finally {
            end("ended");
          }
        },
      });
      using compressions = countCompressions();
      const head = await server.request("HEAD", list, { headers });
      expect(await head.read()).toEqual({ body: "", isComplete: true });
      expect(await ended).toBe("ended");
      expect(compressions.opened).toBe(0);
      const full = await server.request("GET", list, { headers });
      for (const name of ["content-encoding", "content-length", "content-type", "vary"]) {
        expect(head.headers[name]).toBe(full.headers[name]);
      }
      await full.read();
    });
  });

  test.each([
    ["gzip;q=0.5, br;q=0.8", "br"],
    ["*", "zstd"],
    ["identity, gzip;q=0.5", undefined],
    ["deflate", undefined],
    ["identity;q=0, gzip", "gzip"],
    ["", undefined],
  ])("a stream is negotiated like any response: %j is %s", async (acceptEncoding, encoding) => {
    const { implementation, confirm } = confirmed(1);
    await using server = await serve(version, implementation);
    const response = await server.request("GET", list, { headers: { "accept-encoding": acceptEncoding } });
    expect(response.headers["content-encoding"]).toBe(encoding);
    const { text } = await read(response.chunks, (encoding ?? "identity") as Encoding, confirm);
    expect(text).toBe('{"text":"message 0"}\n');
  });

  test.each([["identity;q=0"], ["*;q=0"], ["identity;q=0, deflate"]])(
    "an Accept-Encoding of %j excludes all codings: 406, before the implementation runs",
    async (acceptEncoding) => {
      let calls = 0;
      await using server = await serve(version, {
        async *list() {
          calls++;
          yield {};
        },
        async sum() {
          calls++;
          return {};
        },
      });
      const headers = { "accept-encoding": acceptEncoding };
      for (const response of [
        await server.request("GET", list, { headers }),
        await server.request("POST", "/streams/sum", {
          headers: { ...headers, "content-type": "application/x-ndjson" },
          body: "",
        }),
      ]) {
        expect([response.status, JSON.parse((await response.read()).body)]).toEqual([
          406,
          {
            code: "invalid_argument",
            reason: "not_acceptable",
            message: "Accept-Encoding excludes all supported content codings",
          },
        ]);
      }
      expect(calls).toBe(0);
    },
  );

  test.each<[string, Omit<FastifyGatewayPluginOptions, "routes">, (context: HandlerContext) => void]>([
    ["the option turns it off", { compression: false }, () => {}],
    ["the option turns it off for streams", { compression: { streams: false } }, () => {}],
    [
      "the answer may not be transformed",
      {},
      ({ responseHeader }) => responseHeader.set("cache-control", "no-transform"),
    ],
  ])("a stream is not compressed if %s", async (_reason, options, prepare) => {
    await using server = await serve(
      version,
      {
        async *list(_request, context) {
          prepare(context);
          yield { text: "a" };
        },
      },
      options,
    );
    const response = await server.request("GET", list, { headers: { "accept-encoding": "gzip" } });
    expect([response.status, response.headers["content-encoding"], response.headers.vary]).toEqual([
      200,
      undefined,
      "Accept",
    ]);
    expect(await response.read()).toEqual({ body: '{"text":"a"}\n', isComplete: true });
  });

  test("a raw body is not compressed if its media type is compressed already", async () => {
    await using server = await serve(version, {
      async *download() {
        yield { contentType: "image/png", data: Buffer.from("a") };
      },
    });
    const response = await server.request("GET", download, { headers: { "accept-encoding": "gzip" } });
    expect([response.headers["content-encoding"], response.headers.vary]).toEqual([undefined, undefined]);
    expect((await response.read()).body).toBe("a");
  });

  test("an error instead of a stream is compressed like any response", async () => {
    await using server = await serve(version, {
      async *list() {
        yield* [];
        throw new ConnectError("gone ".repeat(1000), Code.NotFound);
      },
    });
    const response = await server.request("GET", list, { headers: { "accept-encoding": "gzip" } });
    expect([response.status, response.headers["content-encoding"]]).toEqual([404, "gzip"]);
    const { text } = await read(response.chunks, "gzip");
    expect(JSON.parse(text)).toEqual({ code: "not_found", message: "gone ".repeat(1000) });
  });

  test("an entity tag that the implementation set gets the suffix of the coding", async () => {
    await using server = await serve(version, {
      async *list(_request, { responseHeader }) {
        responseHeader.set("etag", '"1"');
        yield { text: "a" };
      },
    });
    const response = await server.request("GET", list, { headers: { "accept-encoding": "br" } });
    expect(response.headers.etag).toBe('"1-br"');
    expect(await read(response.chunks, "br")).toMatchObject({ text: '{"text":"a"}\n', isWhole: true });
  });
});

test("disabling it for streams does not affect other responses", async () => {
  const text = "x".repeat(2000);
  await using server = await serveStreams("HTTP/1.1", {
    compression: { streams: false },
    routes: (router) => router.service(ThingsService, { openThing: () => ({ note: text }) }),
  });
  const headers = { "content-type": "application/json", "accept-encoding": "gzip" };
  const response = await server.request("PUT", "/things/open", { headers, body: '{"id":"x"}' });
  expect(response.headers["content-encoding"]).toBe("gzip");
});

test.each(encodings.filter((encoding) => encoding !== "zstd" || detectsTruncatedZstd))(
  "fetch reads each message before the next is created, in %s",
  async (encoding) => {
    const { implementation, confirm } = confirmed(3);
    await using server = await serve("HTTP/1.1", implementation);
    const { port } = server.app.server.address() as { port: number };
    const response = await fetch(`http://127.0.0.1:${port}${list}`, { headers: { "accept-encoding": encoding } });
    let text = "";
    for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += piece;
      confirm(text);
    }
    expect(text).toBe('{"text":"message 0"}\n{"text":"message 1"}\n{"text":"message 2"}\n');
  },
);
