import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { type GatewayOptions, PollableIterator } from "../../src/index.ts";
import { type Item, ItemSchema, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { rpcServers } from "../adapters/rpc-servers.ts";
import { type HttpVersion, serveStreams, type Streams } from "../serve-streams.ts";

/** A stream whose messages are pushed by the test. */
class Feed extends PollableIterator<Item> {
  readonly #items: Item[] = [];
  #end: (() => IteratorResult<Item, undefined>) | undefined;
  #onReady: (() => void) | undefined;
  readonly #returned = Promise.withResolvers<void>();
  /** How many messages were taken. */
  taken = 0;

  poll(onReady: () => void): IteratorResult<Item, undefined> | undefined {
    const value = this.#items.shift();
    if (value !== undefined) {
      this.taken++;
      return { done: false, value };
    }
    this.#onReady = onReady;
    return this.#end?.();
  }

  override return(): Promise<IteratorResult<Item, undefined>> {
    this.#returned.resolve();
    return super.return();
  }

  get returned(): Promise<void> {
    return this.#returned.promise;
  }

  /** Adds messages, of which each is announced. */
  push(...texts: string[]): void {
    for (const text of texts) {
      this.#items.push(Object.freeze(create(ItemSchema, { text })));
      this.#onReady?.();
    }
  }

  close(): void {
    this.#end = () => ({ done: true, value: undefined });
    this.#onReady?.();
  }

  fail(error: Error): void {
    this.#end = () => {
      throw error;
    };
    this.#onReady?.();
  }
}

/** A stream that announces its end when it is to return, and when its call has ended. */
class EndingFeed extends Feed {
  constructor({ signal }: HandlerContext, ...texts: string[]) {
    super();
    this.push(...texts);
    signal.addEventListener("abort", () => this.close());
  }

  override return(): Promise<IteratorResult<Item, undefined>> {
    this.close();
    return super.return();
  }
}

const endingRoutes: GatewayOptions["routes"] = (router) =>
  router.service(StreamsService, { list: (_, context) => new EndingFeed(context, "first") });

const routesOf =
  (feed: Feed): GatewayOptions["routes"] =>
  (router) =>
    router.service(StreamsService, { list: () => feed });

const serve = (
  version: HttpVersion,
  feed: Feed,
  options: Omit<GatewayOptions, "routes" | "interceptors"> & { interceptors?: Interceptor[] } = {},
): Promise<Streams> => serveStreams(version, { ...options, routes: routesOf(feed) });

const list = "/streams/s/items";

/** Reads the text of a response until it contains `end`. */
async function readUntil(chunks: AsyncIterator<Buffer>, end: string): Promise<string> {
  let text = "";
  while (!text.includes(end)) {
    const { done, value } = await chunks.next();
    if (done === true) {
      throw new Error(`the response has ended: ${text}`);
    }
    text += value.toString();
  }
  return text;
}

const numbers = (count: number): string[] => Array.from({ length: count }, (_, at) => String(at));
const linesOf = (texts: readonly string[]): string => texts.map((text) => `{"text":"${text}"}\n`).join("");

test("over HTTP/1.1, the first message of a tick is written at once, and the others together at its end", async () => {
  const feed = new Feed();
  await using server = await serve("HTTP/1.1", feed);
  const connected = once(server.app.server, "connection");
  feed.push("first");
  const response = await server.request("GET", list);
  const chunks = response.chunks[Symbol.asyncIterator]();
  await readUntil(chunks, "first");
  const [socket] = (await connected) as [Socket];
  feed.push("second");
  expect(socket.writableLength).toBe(0);
  feed.push("third", "fourth");
  expect(socket.writableLength).toBeGreaterThan(0);
  await new Promise<void>((resolve) => process.nextTick(resolve));
  expect(socket.writableLength).toBe(0);
  expect(await readUntil(chunks, "fourth")).toBe(linesOf(["second", "third", "fourth"]));
});

test("over HTTP/1.1, a stream that waits for the response to an earlier request ends if its client disconnects", async () => {
  const feeds = [new Feed(), new Feed()];
  let calls = 0;
  await using server = await serveStreams("HTTP/1.1", {
    routes: (router) => router.service(StreamsService, { list: () => feeds[calls++] as Feed }),
  });
  const connected = once(server.app.server, "connection");
  const client = connect((server.app.server.address() as AddressInfo).port, "127.0.0.1");
  const request = `GET ${list} HTTP/1.1\r\nhost: x\r\n\r\n`;
  client.write(request + request);
  const [socket] = (await connected) as [Socket];
  for (const feed of feeds) {
    feed.push("first");
  }
  await readUntil(client[Symbol.asyncIterator]() as AsyncIterator<Buffer>, "first");
  expect([calls, ...feeds.map(({ taken }) => taken)]).toEqual([2, 1, 1]);
  client.destroy();
  await Promise.all(feeds.map(({ returned }) => returned));
  expect(socket.destroyed).toBe(true);
});

test("over HTTP/1.1, a response that the application has ended gets no more messages", async () => {
  const feed = new Feed();
  await using server = await serve("HTTP/1.1", feed);
  const requested = once(server.app.server, "request");
  feed.push("first");
  const client = connect((server.app.server.address() as AddressInfo).port, "127.0.0.1");
  client.write(`GET ${list} HTTP/1.1\r\nhost: x\r\n\r\n`);
  const [, response] = (await requested) as [unknown, ServerResponse];
  const chunks = client[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  await readUntil(chunks, 'first"}\n\r\n');
  response.end();
  // The response has its connection until its last bytes are written.
  feed.push("second");
  await feed.returned;
  client.end();
  expect(await readUntil(chunks, "0\r\n\r\n")).toBe("0\r\n\r\n");
  expect(await chunks.next()).toEqual({ done: true, value: undefined });
});

describe.each<[HttpVersion]>([["HTTP/1.1"], ["HTTP/2"]])("a stream that can be polled, over %s", (version) => {
  test("is sent in order, the messages of a burst in the call that announces them", async () => {
    const feed = new Feed();
    await using server = await serve(version, feed);
    feed.push("first");
    const response = await server.request("GET", list);
    const chunks = response.chunks[Symbol.asyncIterator]();
    expect(await readUntil(chunks, "first")).toBe('{"text":"first"}\n');
    feed.push(...numbers(100));
    expect(feed.taken).toBe(101);
    expect(await readUntil(chunks, '"99"')).toBe(linesOf(numbers(100)));
    feed.push("last");
    feed.close();
    expect(await readUntil(chunks, "last")).toBe('{"text":"last"}\n');
    expect(await chunks.next()).toEqual({ done: true, value: undefined });
  });

  test("is not polled while the buffers are full, and continues when the client reads", async () => {
    const feed = new Feed();
    await using server = await serve(version, feed);
    feed.push("first");
    const response = await server.request("GET", list);
    const texts = numbers(3_000).map((number) => `${number} ${"x".repeat(10_000)}`);
    feed.push(...texts);
    // It is blocked when it makes no progress between two checks; data in flight is in the sockets' buffers.
    let before = -1;
    while (before !== feed.taken) {
      before = feed.taken;
      for (let turns = 0; turns < 2000; turns++) {
        await new Promise(setImmediate);
      }
    }
    expect(feed.taken).toBeLessThan(2_500);
    // It does not take what is announced meanwhile.
    feed.push("last");
    expect(feed.taken).toBe(before);
    feed.close();
    expect(await response.read()).toEqual({ body: linesOf(["first", ...texts, "last"]), isComplete: true });
  });

  test("returns if the client disconnects, and is not polled any more", async () => {
    const feed = new Feed();
    await using server = await serve(version, feed);
    feed.push("first");
    const response = await server.request("GET", list);
    await readUntil(response.chunks[Symbol.asyncIterator](), "first");
    response.disconnect();
    await feed.returned;
    feed.push("late");
    expect(feed.taken).toBe(1);
  });

  test("that fails before its first message has an error response", async () => {
    const feed = new Feed();
    await using server = await serve(version, feed);
    const requested = server.request("GET", list);
    feed.fail(new ConnectError("no such shelf", Code.NotFound));
    const response = await requested;
    expect([response.status, (await response.read()).body]).toEqual([
      404,
      '{"code":"not_found","message":"no such shelf"}',
    ]);
  });

  test("that fails later has its error after the messages, and is aborted", async () => {
    const feed = new Feed();
    await using server = await serve(version, feed);
    feed.push("first");
    const response = await server.request("GET", list);
    feed.push(...numbers(100));
    feed.fail(new ConnectError("the shelf broke", Code.DataLoss));
    expect(await response.read()).toEqual({
      body: `${linesOf(["first", ...numbers(100)])}{"error":{"code":"data_loss","message":"the shelf broke"}}\n`,
      isComplete: false,
    });
  });

  test("ends at its deadline, and at the shutdown", async () => {
    const shutdown = new AbortController();
    const feed = new Feed();
    await using server = await serve(version, feed, { shutdownSignal: shutdown.signal });
    feed.push("first");
    const late = await server.request("GET", list, { headers: { "connect-timeout-ms": "300" } });
    expect(await late.read()).toEqual({
      body: '{"text":"first"}\n{"error":{"code":"deadline_exceeded","message":"the operation timed out"}}\n',
      isComplete: false,
    });
    feed.push("again");
    const ended = await server.request("GET", list);
    shutdown.abort();
    expect(await ended.read()).toEqual({
      body: '{"text":"again"}\n{"error":{"code":"unavailable","message":"the service is closing"}}\n',
      isComplete: false,
    });
  });

  test("has the error that ends it, also if it announces its end when it is to return", async () => {
    const shutdown = new AbortController();
    await using server = await serveStreams(version, { routes: endingRoutes, shutdownSignal: shutdown.signal });
    const late = await server.request("GET", list, { headers: { "connect-timeout-ms": "300" } });
    expect(await late.read()).toEqual({
      body: '{"text":"first"}\n{"error":{"code":"deadline_exceeded","message":"the operation timed out"}}\n',
      isComplete: false,
    });
    const ended = await server.request("GET", list);
    shutdown.abort();
    expect(await ended.read()).toEqual({
      body: '{"text":"first"}\n{"error":{"code":"unavailable","message":"the service is closing"}}\n',
      isComplete: false,
    });
  });

  test("has its last chunk, also if it announces its end when its call has ended", async () => {
    const feeds: Feed[] = [];
    await using server = await serveStreams(version, {
      routes: (router) =>
        router.service(StreamsService, {
          list(_, context) {
            feeds.push(new EndingFeed(context, "first"));
            return feeds.at(-1) as Feed;
          },
        }),
    });
    const response = await server.request("GET", list, { headers: { accept: "application/json" } });
    feeds.forEach((feed) => {
      feed.push("last");
      feed.close();
    });
    expect(await response.read()).toEqual({ body: '[{"text":"first"},{"text":"last"}]', isComplete: true });
  });

  test("ends at the shutdown that it begins itself", async () => {
    const shutdown = new AbortController();
    await using server = await serveStreams(version, {
      shutdownSignal: shutdown.signal,
      routes: (router) =>
        router.service(StreamsService, {
          async *list() {
            yield create(ItemSchema, { text: "first" });
            shutdown.abort();
            await new Promise(() => {});
          },
        }),
    });
    const response = await server.request("GET", list);
    expect(await response.read()).toEqual({
      body: '{"text":"first"}\n{"error":{"code":"unavailable","message":"the service is closing"}}\n',
      isComplete: false,
    });
  });

  test("has heartbeats while it is silent", async () => {
    const feed = new Feed();
    await using server = await serve(version, feed, { streams: { heartbeatMs: 5 } });
    feed.push("first");
    const { chunks } = await server.request("GET", list, { headers: { accept: "text/event-stream" } });
    const iterator = chunks[Symbol.asyncIterator]();
    expect(await readUntil(iterator, ":\n\n:\n\n")).toMatch(/^data: \{"text":"first"\}\n\n(?::\n\n){2,}$/);
    feed.push("second");
    feed.close();
    expect(await readUntil(iterator, "second")).toMatch(/^(?::\n\n)*data: \{"text":"second"\}\n\n$/);
  });

  test("passes interceptors, which may replace its messages by any iterable", async () => {
    const feed = new Feed();
    const seen: string[] = [];
    const pass: Interceptor = (next) => async (request) => {
      seen.push(request.method.name);
      return next(request);
    };
    const shout: Interceptor = (next) => async (request) => {
      const response = await next(request);
      if (!response.stream) {
        return response;
      }
      return {
        ...response,
        message: (async function* () {
          for await (const message of response.message) {
            yield create(ItemSchema, { text: `${(message as Item).text}!` });
          }
        })(),
      };
    };
    await using passing = await serve(version, feed, { interceptors: [pass] });
    feed.push("first");
    const { chunks } = await passing.request("GET", list);
    const iterator = chunks[Symbol.asyncIterator]();
    await readUntil(iterator, "first");
    feed.push(...numbers(10));
    expect([seen, feed.taken]).toEqual([["List"], 11]);
    expect(await readUntil(iterator, '"9"')).toBe(linesOf(numbers(10)));

    const other = new Feed();
    await using wrapping = await serve(version, other, { interceptors: [shout] });
    other.push("first", "second");
    const response = await wrapping.request("GET", list);
    other.push("third");
    other.close();
    expect(await response.read()).toEqual({ body: linesOf(["first!", "second!", "third!"]), isComplete: true });
  });
});

describe.each(rpcServers)("a stream that can be polled, in %s", (_, open) => {
  test("is served in all protocols", async () => {
    let feed = new Feed();
    await using server = await open({ routes: (router) => router.service(StreamsService, { list: () => feed }) });
    for (const [protocol, transport] of server.transports) {
      feed = new Feed();
      feed.push("first");
      const received: string[] = [];
      const read = async (): Promise<void> => {
        for await (const { text } of createClient(StreamsService, transport).list({})) {
          received.push(text);
          if (text === "first") {
            feed.push(...numbers(50));
            feed.fail(new ConnectError("the shelf broke", Code.DataLoss));
          }
        }
      };
      const failure: unknown = await read().catch((error: unknown) => error);
      expect([protocol, received, ConnectError.from(failure).rawMessage]).toEqual([
        protocol,
        ["first", ...numbers(50)],
        "the shelf broke",
      ]);
    }
  });

  test("returns if the client aborts the call", async () => {
    let feed = new Feed();
    await using server = await open({ routes: (router) => router.service(StreamsService, { list: () => feed }) });
    for (const [, transport] of server.transports) {
      feed = new Feed();
      feed.push("first");
      const controller = new AbortController();
      const call = createClient(StreamsService, transport).list({}, { signal: controller.signal });
      const messages = call[Symbol.asyncIterator]();
      await messages.next();
      controller.abort();
      await feed.returned;
      await expect(messages.next()).rejects.toThrow(/abort/i);
    }
  });
});

describe.each(rpcServers)("a stream that announces its end when it is to return, in %s", (_, open) => {
  test("has the error that ends it in all protocols", async () => {
    const shutdown = new AbortController();
    await using server = await open({ routes: endingRoutes, shutdownSignal: shutdown.signal });
    for (const [protocol, transport] of server.transports) {
      const messages = createClient(StreamsService, transport).list({}, { timeoutMs: 2_000 })[Symbol.asyncIterator]();
      // Long enough for the first message on a busy machine.
      await messages.next();
      const failure: unknown = await messages.next().catch((error: unknown) => error);
      expect([protocol, ConnectError.from(failure).code]).toEqual([protocol, Code.DeadlineExceeded]);
    }
    const calls = await Promise.all(
      Array.from(server.transports, async ([, transport]) => {
        const messages = createClient(StreamsService, transport).list({})[Symbol.asyncIterator]();
        expect((await messages.next()).value?.text).toBe("first");
        return messages;
      }),
    );
    shutdown.abort();
    for (const messages of calls) {
      await expect(messages.next()).rejects.toThrow("[unavailable] the service is closing");
    }
  });
});

test("is an async iterator, whose next waits for the next message", async () => {
  const feed = new Feed();
  const next = feed.next();
  feed.push("a", "b");
  expect(await next).toMatchObject({ done: false, value: { text: "a" } });
  const texts: string[] = [];
  setImmediate(() => {
    feed.push("c");
    feed.close();
  });
  for await (const { text } of feed) {
    texts.push(text);
  }
  expect(texts).toEqual(["b", "c"]);
  const failing = new Feed();
  const failed = failing.next();
  failing.fail(new Error("broken"));
  await expect(failed).rejects.toThrow("broken");
});

test("a read that has ended takes nothing of what is announced later", async () => {
  const feed = new Feed();
  const first = feed.next();
  // The feed announces the second message to the first read.
  feed.push("a", "b");
  expect([(await first).value?.text, (await feed.next()).value?.text]).toEqual(["a", "b"]);
});

test("concurrent reads are answered in their order", async () => {
  const feed = new Feed();
  const reads = [feed.next(), feed.next(), feed.next(), feed.next()];
  feed.push("a", "b");
  feed.close();
  expect((await Promise.all(reads)).map(({ value }) => value?.text)).toEqual(["a", "b", undefined, undefined]);
});
