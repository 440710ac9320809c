import { describe, expect, test } from "vitest";
import type { ExchangeHandler } from "../../../src/server/http/exchange.ts";
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
  type,
  uint32,
  untilFrame,
} from "./frames.ts";
import { okResponse, readText, serving } from "./exchange-handler.ts";
import { flood, hello, type Limit, listen } from "./limited-listener.ts";
import { openRaw, type RawConnection } from "./raw-connection.ts";

const rst = (streamId: number) => frame(type.rstStream, 0, streamId, uint32(errorCode.cancel));
const repeat = (count: number, make: (at: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => make(at)));

/** Never responds. */
const silent = serving((exchange) => void readText(exchange).catch(() => {}));

/** The call that is made after the attack. */
const last = 1_000_001;

/** What nghttp2 ends by itself, each with a count that it tolerates; the limits are Node's defaults. */
const floods: Record<string, { readonly tolerated: number; readonly make: (count: number) => Buffer }> = {
  "empty DATA": {
    tolerated: 900,
    make: (count) =>
      Buffer.concat([post(1), repeat(count, () => frame(type.data, 0, 1)), frame(type.data, flag.endStream, 1)]),
  },
  // CVE-2025-8671: makes the server reset streams that it is processing.
  "invalid trailers": {
    tolerated: 900,
    make: (count) => repeat(count, (at) => Buffer.concat([post(2 * at + 1), post(2 * at + 1)])),
  },
  // CVE-2023-44487.
  "calls that are reset at once": {
    tolerated: 900,
    make: (count) => repeat(count, (at) => Buffer.concat([get(2 * at + 1), rst(2 * at + 1)])),
  },
};

describe("a flood of", () => {
  test.each(Object.entries(floods))("%s closes its connection, but fewer do not", async (_what, given) => {
    const { tolerated, make } = given;
    const respondToLast: ExchangeHandler = (exchange, rejection) =>
      exchange.headers["x-last"] === undefined ? silent(exchange, rejection) : hello(exchange, rejection);
    await using server = await listen({}, respondToLast);
    using attacker = await openRaw2(server.port);
    await flood(attacker, make(5_000));
    expect(goawayCode(await attacker.closed())).toBe(errorCode.internal);
    await expect.poll(() => server.connections(), { timeout: 60_000 }).toBe(0);

    using honest = await openRaw2(server.port);
    await flood(honest, make(tolerated));
    honest.write(frame(type.headers, flag.endStream | flag.endHeaders, last, headerBlock("GET", [["x-last", "1"]])));
    await untilFrame(honest, type.data, last);
  });

  // nghttp2 accepts eight; this is not configurable.
  test("CONTINUATION frames closes its connection, but a few do not", async () => {
    await using server = await listen();
    const fragments = (count: number): Buffer =>
      Buffer.concat([
        frame(type.headers, flag.endStream, 1, headerBlock("GET")),
        repeat(count, () => frame(type.continuation, 0, 1, Buffer.from([0, 1, 0x61, 1, 0x62]))),
        frame(type.continuation, flag.endHeaders, 1),
      ]);
    using attacker = await openRaw2(server.port);
    await flood(attacker, fragments(1_000));
    expect(goawayCode(await attacker.closed())).toBe(errorCode.internal);
    using honest = await openRaw2(server.port);
    honest.write(fragments(7));
    await untilFrame(honest, type.data, 1);
  });

  // An entry of the dynamic table (RFC 7541), named again and again: 4 KB a byte.
  test("references to one large field is rejected without using memory", async () => {
    await using limited = await listen({ headerBytes: 16_384 });
    using raw = await openRaw2(limited.port);
    const large = Buffer.concat([
      headerBlock("GET"),
      Buffer.from([0x40, 1, 0x78, 127, 0xf1, 0x1d]),
      Buffer.alloc(3_952, "y"),
    ]);
    raw.write(frame(type.headers, flag.endStream | flag.endHeaders, 1, large));
    await untilFrame(raw, type.data, 1);
    const bomb = Buffer.concat([headerBlock("GET"), Buffer.alloc(16_000, 0xbe)]);
    raw.write(frame(type.headers, flag.endStream | flag.endHeaders, 3, bomb));
    expect((await untilFrame(raw, type.rstStream, 3)).payload.readUInt32BE()).toBe(errorCode.enhanceYourCalm);
    raw.write(get(5));
    await untilFrame(raw, type.data, 5);
  });

  test("pipelined requests closes its connection, and without the limit all are served", async () => {
    const pipelined = Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50));
    const released = Promise.withResolvers<void>();
    let calls = 0;
    const late = serving((exchange) => {
      calls++;
      void released.promise.then(() => exchange.send(okResponse("hello")));
    });
    await using limited = await listen({ callsPerConnection: 10 }, late);
    using attacker = await openRaw(limited.port);
    attacker.write(pipelined);
    await attacker.closed();
    expect(limited.reached).toContain("callsPerConnection");
    expect(calls).toBe(10);

    await using unlimited = await listen({}, late);
    using other = await openRaw(unlimited.port);
    other.write(pipelined);
    released.resolve();
    await other.untilTrue((received) => received.split("hello").length > 50);
  });

  test("chunk extensions is rejected", async () => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    await flood(raw, Buffer.from(`1;${"x".repeat(100_000)}\r\na\r\n`));
    expect(await raw.closed()).toMatch(/^HTTP\/1.1 413 /);
  });
});

describe("a request beyond a limit", () => {
  test.each<[string, Limit, Record<string, number>, (raw: RawConnection) => void, RegExp]>([
    [
      "a large header (HTTP/1)",
      "headerBytes",
      { headerBytes: 2_000 },
      (raw) => raw.write(`GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(3_000)}\r\n\r\n`),
      /^HTTP\/1.1 431 .*headers_too_large/s,
    ],
    [
      "many fields (HTTP/1)",
      "headerBytes",
      { headerFields: 50 },
      (raw) => raw.write(`GET / HTTP/1.1\r\nHost: a\r\n${"X: y\r\n".repeat(60)}\r\n`),
      /^HTTP\/1.1 431 .*headers_too_large/s,
    ],
  ])("gets an error response, and without the limit is served: %s", async (_what, limit, limits, send, response) => {
    await using limited = await listen(limits);
    await using unlimited = await listen();
    using one = await openRaw(limited.port);
    using other = await openRaw(unlimited.port);
    send(one);
    send(other);
    await one.until(response);
    expect(limited.reached).toEqual([limit]);
    await other.until(/hello/);
  });

  test.each([
    ["a large header", { headerBytes: 2_000 }, [["x", "x".repeat(3_000)]] as const],
    ["many fields", { headerFields: 50 }, Array.from({ length: 60 }, () => ["x", "y"] as const)],
  ])("is reset, and without the limit is served: %s (HTTP/2)", async (_what, limits, fields) => {
    const request = frame(type.headers, flag.endStream | flag.endHeaders, 1, headerBlock("GET", fields));
    await using limited = await listen(limits);
    await using unlimited = await listen();
    using one = await openRaw2(limited.port);
    using other = await openRaw2(unlimited.port);
    for (const raw of [one, other]) {
      // Limits apply once the client has acknowledged the settings.
      await untilFrame(raw, type.settings, 0);
      raw.write(Buffer.concat([frame(type.settings, flag.ack, 0), request]));
    }
    expect((await untilFrame(one, type.rstStream, 1)).payload.readUInt32BE()).toBe(errorCode.enhanceYourCalm);
    await untilFrame(other, type.data, 1);
  });

  test("is reset if it is one stream too many, and without the limit is served", async () => {
    const released = Promise.withResolvers<void>();
    const late = serving((exchange) => void released.promise.then(() => exchange.send(okResponse("hello"))));
    await using limited = await listen({ callsPerConnection: 2 }, late);
    await using unlimited = await listen({}, late);
    using one = await openRaw2(limited.port);
    using other = await openRaw2(unlimited.port);
    for (const raw of [one, other]) {
      raw.write(Buffer.concat([get(1), get(3), get(5)]));
    }
    const reset = await untilFrame(one, type.rstStream, 5);
    expect(reset.payload.readUInt32BE()).toBe(errorCode.refused);
    released.resolve();
    await untilFrame(one, type.data, 3);
    await untilFrame(other, type.data, 5);
    expect(framesIn(await other.until(/hello/)).filter((each) => each.type === type.rstStream)).toEqual([]);
  });
});
