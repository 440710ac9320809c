import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Exchange, ExchangeHandler } from "../../../src/server/http/exchange.ts";
import type { ListenerOptions } from "../../../src/server/http/listener-options.ts";
import {
  errorCode,
  flag,
  frame,
  framesIn,
  get,
  goawayCode,
  headerBlock,
  openRaw2,
  post,
  preface,
  setting,
  type,
  uint32,
  untilFrame,
} from "./frames.ts";
import { okResponse, readText, serving } from "./exchange-handler.ts";
import { drip, type Limit, listen } from "./limited-listener.ts";
import { openRaw, type RawConnection } from "./raw-connection.ts";

const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
const getHead = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ping = frame(type.ping, 0, 0, Buffer.alloc(8));
const hello = /hello/;

type Slow = {
  readonly open?: (port: number) => Promise<RawConnection>;
  /** Starts the slow client, which stays slow until the result is disposed. */
  readonly begin?: (raw: RawConnection) => Promise<Disposable | void> | Disposable | void;
  /** Completes the request, if the client was not disconnected. */
  readonly rest: string | Buffer;
  /** Waits for its end by the limit. */
  readonly ended: (raw: RawConnection) => Promise<unknown>;
  readonly limit: Limit;
  /** In addition to the limit itself, which is 100 ms. */
  readonly with?: Partial<ListenerOptions>;
  readonly without?: Partial<ListenerOptions>;
  readonly handler?: ExchangeHandler;
};

const closes = async (raw: RawConnection) => expect(await raw.closed()).not.toMatch(hello);
const timesOut = async (raw: RawConnection) => expect(await raw.closed()).toMatch(/^HTTP\/1.1 408 .*request_timeout/s);
const goesAway = async (raw: RawConnection) => expect(goawayCode(await raw.closed())).toBe(errorCode.enhanceYourCalm);
const isReset = async (raw: RawConnection) =>
  expect((await untilFrame(raw, type.rstStream, 1)).payload.readUInt32BE()).toBe(errorCode.cancel);

const longHeader = frame(type.headers, flag.endStream, 1, headerBlock("GET", [["x-long", "x".repeat(8_000)]]));
const endOfHeader = frame(type.continuation, flag.endHeaders, 1, Buffer.from([0, 1, 0x61, 1, 0x62]));

const clients: Record<string, Slow> = {
  "sends nothing": { rest: getHead, ended: closes, limit: "firstByteTimeoutMs" },
  "stops inside the preface": {
    begin: (raw) => raw.write(preface.subarray(0, 20)),
    rest: Buffer.concat([preface.subarray(20), frame(type.settings, 0, 0), get(1)]),
    ended: closes,
    limit: "firstByteTimeoutMs",
  },
  "sends the preface and no SETTINGS": {
    begin: (raw) => raw.write(preface),
    rest: Buffer.concat([frame(type.settings, 0, 0), get(1)]),
    ended: goesAway,
    limit: "firstByteTimeoutMs",
  },
  "does not end its header (HTTP/1)": {
    begin: (raw) => raw.write("GET / HTTP/1.1\r\nHost: a\r\nX: "),
    rest: "\r\n\r\n",
    ended: timesOut,
    limit: "headersTimeoutMs",
  },
  "sends its header byte by byte (HTTP/1)": {
    begin(raw) {
      raw.write("GET / HTTP/1.1\r\nHost: a\r\nX: ");
      return drip(raw, () => "x");
    },
    rest: "\r\n\r\n",
    ended: timesOut,
    limit: "headersTimeoutMs",
  },
  "does not end its header (HTTP/2)": {
    open: openRaw2,
    begin: (raw) => raw.write(frame(type.headers, flag.endStream, 1, headerBlock("GET"))),
    rest: frame(type.continuation, flag.endHeaders, 1),
    ended: goesAway,
    limit: "headersTimeoutMs",
  },
  "sends its header byte by byte (HTTP/2)": {
    open: openRaw2,
    begin(raw) {
      let sent = 4_000;
      raw.write(longHeader.subarray(0, sent));
      const slowly = drip(raw, () => longHeader.subarray(sent, ++sent));
      return {
        [Symbol.dispose]() {
          slowly[Symbol.dispose]();
          raw.write(longHeader.subarray(sent));
        },
      };
    },
    rest: endOfHeader,
    ended: goesAway,
    limit: "headersTimeoutMs",
  },
  "stops inside its body (HTTP/1)": {
    begin: (raw) => raw.write(`${head}12345`),
    rest: "67890",
    ended: timesOut,
    limit: "stallTimeoutMs",
  },
  "stops inside its body (HTTP/2)": {
    open: openRaw2,
    begin: (raw) => raw.write(Buffer.concat([post(1), frame(type.data, 0, 1, Buffer.from("12345"))])),
    rest: frame(type.data, flag.endStream, 1),
    ended: isReset,
    limit: "stallTimeoutMs",
  },
  "stops inside a chunk (HTTP/1)": {
    begin: (raw) => raw.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123"),
    rest: "45\r\n0\r\n\r\n",
    ended: timesOut,
    limit: "stallTimeoutMs",
  },
  "sends its body byte by byte, for as long as it likes (HTTP/1)": {
    begin(raw) {
      raw.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
      return drip(raw, () => "1\r\nx\r\n");
    },
    rest: "0\r\n\r\n",
    ended: timesOut,
    limit: "requestTimeoutMs",
  },
  "sends its body byte by byte, for as long as it likes (HTTP/2)": {
    open: openRaw2,
    begin(raw) {
      raw.write(post(1));
      return drip(raw, () => frame(type.data, 0, 1, Buffer.from("x")));
    },
    rest: frame(type.data, flag.endStream, 1),
    ended: isReset,
    limit: "requestTimeoutMs",
  },
  "makes no second call (HTTP/1)": {
    async begin(raw) {
      raw.write(getHead);
      await raw.until(hello);
    },
    rest: getHead,
    ended: (raw) => raw.closed(),
    limit: "idleTimeoutMs",
  },
  "makes no call (HTTP/2)": {
    open: openRaw2,
    rest: get(1),
    ended: async (raw) => expect(goawayCode(await raw.closed())).toBe(errorCode.noError),
    limit: "idleTimeoutMs",
  },
  "makes no call, but sends PINGs (HTTP/2)": {
    open: openRaw2,
    begin: (raw) => drip(raw, () => ping),
    rest: get(1),
    ended: async (raw) => expect(goawayCode(await raw.closed())).toBe(errorCode.noError),
    limit: "idleTimeoutMs",
  },
};

/** Clients that Node itself disconnects, without an event. */
const silent = new Set(["makes no second call (HTTP/1)"]);

describe("a slow client:", () => {
  test.each(Object.entries(clients))(
    "%s is disconnected at the limit, and without one is served",
    async (name, slow) => {
      const { open = openRaw, begin, rest, ended, limit, handler } = slow;
      await using limited = await listen({ [limit]: 100, ...slow.with }, handler);
      await using unlimited = await listen({ ...slow.without }, handler);
      using one = await open(limited.port);
      using other = await open(unlimited.port);
      using _one = (await begin?.(one)) ?? undefined;
      using others = (await begin?.(other)) ?? undefined;
      await ended(one);
      expect(limited.reached).toEqual(silent.has(name) ? [] : [limit]);
      others?.[Symbol.dispose]();
      other.write(rest);
      await other.until(hello);
      expect(unlimited.reached).toEqual([]);
    },
  );

  // A short body is drained, so that the connection can be reused. The bytes of it reset Node's own timers.
  test("sends the rest of its body byte by byte after an early response is disconnected", async () => {
    const early = serving((exchange) => exchange.send(okResponse("hello")));
    await using limited = await listen({ idleTimeoutMs: 100, headersTimeoutMs: 100 }, early);
    await using unlimited = await listen({}, early);
    using one = await openRaw(limited.port);
    using other = await openRaw(unlimited.port);
    for (const raw of [one, other]) {
      raw.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n");
      await raw.until(hello);
    }
    using _one = drip(one, () => "x");
    let missing = 60_000;
    using others = drip(other, () => {
      missing -= 1;
      return "x";
    });
    await one.closed();
    expect(limited.reached).toEqual(["idleTimeoutMs"]);
    others[Symbol.dispose]();
    other.write("x".repeat(missing) + getHead);
    await other.until(/hello.*hello/s);
  });

  // Node's own timers are reset by empty lines, which a server has to ignore.
  test("sends empty lines between its requests is disconnected", async () => {
    await using limited = await listen({ idleTimeoutMs: 100, headersTimeoutMs: 100 });
    await using unlimited = await listen();
    using one = await openRaw(limited.port);
    using other = await openRaw(unlimited.port);
    for (const raw of [one, other]) {
      raw.write(getHead);
      await raw.until(hello);
    }
    using _one = drip(one, () => "\r\n");
    using others = drip(other, () => "\r\n");
    await one.closed();
    expect(limited.reached).toEqual(["idleTimeoutMs"]);
    others[Symbol.dispose]();
    other.write(getHead);
    await other.until(/hello.*hello/s);
  });
});

describe("a body that arrives byte by byte", () => {
  const pieces = {
    http1: {
      open: openRaw,
      begin: "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
      piece: "1\r\nx\r\n",
      rest: "0\r\n\r\n",
      ended: timesOut,
    },
    http2: {
      open: openRaw2,
      begin: post(1),
      piece: frame(type.data, 0, 1, Buffer.from("x")),
      rest: frame(type.data, flag.endStream, 1),
      ended: isReset,
    },
  };

  test.each(["http1", "http2"] as const)("is too slow, unless there is no minimum throughput: %s", async (version) => {
    const { open, begin, piece, rest, ended } = pieces[version];
    // If the machine stops this process for as long, the other client is disconnected too.
    const stallTimeoutMs = 3_000;
    await using limited = await listen({ stallTimeoutMs, minBytesPerSecond: 10_000 });
    await using unlimited = await listen({ stallTimeoutMs, minBytesPerSecond: 0 });
    using one = await open(limited.port);
    using other = await open(unlimited.port);
    one.write(begin);
    other.write(begin);
    using _one = drip(one, () => piece);
    using others = drip(other, () => piece);
    await ended(one);
    expect(limited.reached).toEqual(["stallTimeoutMs"]);
    others[Symbol.dispose]();
    other.write(rest);
    await other.until(hello);
    expect(unlimited.reached).toEqual([]);
  });
});

describe("a response that the client does not read", () => {
  const size = 32 * 1024 * 1024;
  const large = serving((exchange) => exchange.send(okResponse(Buffer.alloc(size))));
  const widest = 2 ** 31 - 1;
  const wide = [setting(4, widest)];
  const widen = frame(type.windowUpdate, 0, 0, uint32(widest - 65_535));

  test.each([
    ["HTTP/1", openRaw, getHead],
    ["HTTP/2", (port: number) => openRaw2(port, wide), Buffer.concat([widen, get(1)])],
  ])("closes its connection, and without the limit waits: %s", async (_version, open, request) => {
    await using limited = await listen({ stallTimeoutMs: 300 }, large);
    await using unlimited = await listen({}, large);
    using one = await open(limited.port);
    using other = await open(unlimited.port);
    for (const raw of [one, other]) {
      raw.socket.pause();
      raw.write(request);
    }
    await expect.poll(() => limited.reached, { timeout: 60_000 }).toEqual(["stallTimeoutMs"]);
    await expect.poll(() => limited.connections(), { timeout: 60_000 }).toBe(0);
    let bytes = 0;
    other.socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
    other.socket.resume();
    await expect.poll(() => bytes, { timeout: 60_000 }).toBeGreaterThan(size);
    expect(unlimited.reached).toEqual([]);
  });

  test("because its window is exhausted is reset, and others on the connection are not", async () => {
    const responses = serving((exchange) => exchange.send(okResponse("hello")));
    await using limited = await listen({ stallTimeoutMs: 100 }, responses);
    await using unlimited = await listen({}, responses);
    using one = await openRaw2(limited.port, [setting(4, 0)]);
    using other = await openRaw2(unlimited.port, [setting(4, 0)]);
    one.write(get(1));
    other.write(get(1));
    await isReset(one);
    expect(limited.reached).toEqual(["stallTimeoutMs"]);
    one.write(Buffer.concat([get(3), frame(type.windowUpdate, 0, 3, uint32(100))]));
    await one.until(hello);
    other.write(frame(type.windowUpdate, 0, 1, uint32(100)));
    await other.until(hello);
  });

  test("because its window is exhausted is reset sooner if its caller was not authenticated", async () => {
    const serve = serving((exchange) => {
      exchange.isAuthenticated = exchange.headers.authorization !== undefined;
      exchange.send(okResponse("hello"));
    });
    await using server = await listen({ anonymousStallTimeoutMs: 100 }, serve);
    using raw = await openRaw2(server.port, [setting(4, 0)]);
    const fields = headerBlock("GET", [["authorization", "Bearer a"]]);
    raw.write(Buffer.concat([frame(type.headers, flag.endStream | flag.endHeaders, 1, fields), get(3), get(5)]));
    // PINGs are no progress.
    using _pings = drip(raw, () => ping);
    for (const streamId of [3, 5]) {
      expect((await untilFrame(raw, type.rstStream, streamId)).payload.readUInt32BE()).toBe(errorCode.cancel);
    }
    raw.write(frame(type.windowUpdate, 0, 1, uint32(100)));
    await raw.until(hello);
    expect(server.reached).toEqual(["anonymousStallTimeoutMs", "anonymousStallTimeoutMs"]);
  });

  test.each(["whole", "streamed"])(
    "because its window ran out is reset soon, but not while it grows: %s",
    async (form) => {
      const bytes = Buffer.alloc(600_000);
      async function* inChunks() {
        for (let at = 0; at < bytes.length; at += 16 * 1024) {
          yield bytes.subarray(at, at + 16 * 1024);
        }
      }
      const serve = serving((exchange) => exchange.send(okResponse(form === "whole" ? bytes : inChunks())));
      // Longer than a busy machine stops this process, and shorter than the slow client takes.
      await using server = await listen({ anonymousStallTimeoutMs: 4_000, requestTimeoutMs: 5_000 }, serve);
      using slow = await openRaw2(server.port);
      using stalled = await openRaw2(server.port);
      slow.write(get(1));
      stalled.write(get(1));
      const more = (streamId: number) => frame(type.windowUpdate, 0, streamId, uint32(500));
      using _growing = drip(slow, () => Buffer.concat([more(0), more(1)]));
      await isReset(stalled);
      const received = await slow.untilTrue((text) => text.length > bytes.length);
      const frames = framesIn(received).filter(({ streamId }) => streamId === 1);
      expect(frames.map((each) => each.type)).not.toContain(type.rstStream);
      expect(server.reached).toEqual(["anonymousStallTimeoutMs"]);
    },
  );

  test("because its window is exhausted is eventually reset, even if others progress", async () => {
    async function* endless() {
      for (;;) {
        yield "hello";
        await delay(10);
      }
    }
    const serve = serving((exchange) => exchange.send(okResponse(endless())));
    await using limited = await listen({ stallTimeoutMs: 300, requestTimeoutMs: 600 }, serve);
    using raw = await openRaw2(limited.port, [setting(4, 0)]);
    raw.write(Buffer.concat([get(1), get(3), frame(type.windowUpdate, 0, 3, uint32(60_000))]));
    await isReset(raw);
    expect(limited.reached).toEqual(["requestTimeoutMs"]);
    const received = await raw.until(hello);
    expect(framesIn(received).filter((each) => each.type === type.rstStream && each.streamId === 3)).toEqual([]);
  });
});

describe("no limit applies to", () => {
  test.each(["http1", "http2"])("a call whose response has begun, in both directions: %s", async (version) => {
    async function* converse(exchange: Exchange) {
      yield "begun";
      for await (const _chunk of exchange.streamBody()) {
        yield "heard";
      }
      yield "hello";
    }
    const talk = serving((exchange) => exchange.send(okResponse(converse(exchange))));
    const limits = { idleTimeoutMs: 50, stallTimeoutMs: 50, headersTimeoutMs: 50, firstByteTimeoutMs: 5_000 };
    await using server = await listen({ ...limits, requestTimeoutMs: version === "http2" ? 50 : 5_000 }, talk);
    using raw = version === "http1" ? await openRaw(server.port) : await openRaw2(server.port);
    raw.write(version === "http1" ? head : post(1));
    await raw.until(/begun/);
    using slower = await openRaw2(server.port);
    await slower.closed();
    raw.write(version === "http1" ? "1234567890" : frame(type.data, flag.endStream, 1, Buffer.from("x")));
    await raw.until(/heard.*hello/s);
    expect(new Set(server.reached)).toEqual(new Set(["idleTimeoutMs"]));
  });

  test("a call whose implementation is slow", async () => {
    const released = Promise.withResolvers<void>();
    const limits = { idleTimeoutMs: 50, stallTimeoutMs: 50, headersTimeoutMs: 50, requestTimeoutMs: 50 };
    const serve = serving((exchange) => {
      void readText(exchange);
      void released.promise.then(() => exchange.send(okResponse("hello")));
    });
    await using server = await listen(limits, serve);
    using one = await openRaw(server.port);
    using two = await openRaw2(server.port);
    one.write(`${head}1234567890`);
    two.write(Buffer.concat([post(1), frame(type.data, flag.endStream, 1, Buffer.from("1234567890"))]));
    using idle = await openRaw2(server.port);
    await idle.closed();
    released.resolve();
    await Promise.all([one.until(hello), two.until(hello)]);
    expect(server.reached).toEqual(["idleTimeoutMs"]);
  });
});
