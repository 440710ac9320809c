import { once } from "node:events";
import http2 from "node:http2";
import { connect } from "node:net";
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import type { ListenerOptions } from "../../../src/server/http/listener-options.ts";
import { okResponse, serving } from "./exchange-handler.ts";
import { listen } from "./limited-listener.ts";
import { openRaw } from "./raw-connection.ts";

const getHead = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/** A connection from this address, with the response to its request; empty if it was rejected. */
async function ask(port: number, localAddress = "127.0.0.1", head = getHead) {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => {});
  socket.write(head);
  const closed = new Promise<string>((resolve) => socket.once("close", () => resolve("")));
  const response = await Promise.race([
    new Promise<string>((resolve) => socket.once("data", (bytes: Buffer) => resolve(bytes.toString()))),
    closed,
  ]);
  return { response, socket, closed, close: () => void socket.destroy() };
}

const served = /200 OK.*hello/s;

/** Responds to the header of a request, whose call is in flight until its body has arrived. */
const busy = serving((exchange) => {
  const body = new PassThrough();
  body.write("hello");
  exchange.send(okResponse(body));
});

/** A server whose connections are never idle. */
const listenBusy = (limits: Partial<ListenerOptions>) => listen(limits, busy);

describe("concurrent connections with calls in flight", () => {
  test.each([
    ["of all sources", { connections: 2 }, "127.0.0.3"],
    ["of one source", { connectionsPerSource: 2 }, "127.0.0.1"],
  ])("%s are limited, and further ones are accepted when others have closed", async (_what, limits, third) => {
    await using server = await listenBusy(limits);
    const first = await ask(server.port, "127.0.0.1");
    const second = await ask(server.port, third === "127.0.0.1" ? "127.0.0.1" : "127.0.0.2");
    expect([first.response, second.response]).toEqual([expect.stringMatching(served), expect.stringMatching(served)]);
    expect((await ask(server.port, third)).response).toBe("");
    expect(server.reached).toEqual(Object.keys(limits));
    first.close();
    await expect.poll(() => server.connections()).toBe(1);
    const again = await ask(server.port, third);
    expect(again.response).toMatch(served);
    again.close();
    second.close();
  });

  test("of one client do not block others", async () => {
    await using server = await listenBusy({ connectionsPerSource: 1 });
    const one = await ask(server.port, "127.0.0.1");
    const other = await ask(server.port, "127.0.0.2");
    expect([one.response, other.response]).toEqual([expect.stringMatching(served), expect.stringMatching(served)]);
    one.close();
    other.close();
  });

  test.each([
    ["without the limit", { connectionsPerSource: 1_000 }],
    ["of a proxy", { connectionsPerSource: 1, isProxy: (address: string | undefined) => address === "127.0.0.1" }],
  ])("%s are not limited", async (_what, limits) => {
    await using server = await listenBusy(limits);
    const all = await Promise.all(Array.from({ length: 5 }, () => ask(server.port, "127.0.0.1")));
    expect(all.map(({ response }) => served.test(response))).toEqual([true, true, true, true, true]);
    all.forEach(({ close }) => close());
  });
});

describe("idle connections make room for new ones", () => {
  const isProxy = (): boolean => true;

  test.each([
    ["of all sources", { connections: 2, isProxy }],
    ["of one source", { connectionsPerSource: 2 }],
  ])("%s: those that were idle for longest", async (_what, limits) => {
    await using server = await listen(limits);
    const first = await ask(server.port);
    const second = await ask(server.port);
    first.socket.write(getHead);
    await once(first.socket, "data");
    const third = await ask(server.port);
    expect(third.response).toMatch(served);
    await second.closed;
    first.socket.write(getHead);
    await once(first.socket, "data");
    expect(server.reached).toEqual([Object.keys(limits)[0]]);
    first.close();
    third.close();
  });

  test("those over HTTP/2 get GOAWAY", async () => {
    await using server = await listen({ connections: 1 });
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    expect(await text(session.request({ ":path": "/" }))).toBe("hello");
    const goaway = once(session, "goaway");
    const next = await ask(server.port);
    expect(next.response).toMatch(served);
    expect((await goaway)[0]).toBe(http2.constants.NGHTTP2_NO_ERROR);
    next.close();
  });

  test("those that have sent nothing too", async () => {
    await using server = await listen({ connectionsPerSource: 10 });
    const silent = Array.from({ length: 30 }, () => connect({ port: server.port, host: "127.0.0.1" }));
    await Promise.all(
      silent.map((socket) =>
        once(
          socket.on("error", () => {}),
          "connect",
        ),
      ),
    );
    const one = await ask(server.port);
    expect(one.response).toMatch(served);
    one.close();
    silent.forEach((socket) => socket.destroy());
  });

  test("authenticated ones come last", async () => {
    const handler = serving((exchange) => {
      exchange.origin.isAuthenticated = exchange.target === "/token";
      exchange.send(okResponse("hello"));
    });
    await using server = await listen({ connections: 2 }, handler);
    const withToken = await ask(server.port, "127.0.0.1", getHead.replace("/", "/token"));
    const without = await ask(server.port);
    const third = await ask(server.port);
    expect(third.response).toMatch(served);
    await without.closed;
    expect(withToken.socket.closed).toBe(false);
    withToken.close();
    third.close();
  });

  test("a flood of kept-alive connections by a proxy locks nobody out", async () => {
    await using server = await listen({ connections: 200, isProxy });
    const flood: Promise<{ response: string; close: () => void }>[] = [];
    for (let count = 0; count < 600; count += 50) {
      const some = Array.from({ length: 50 }, () => ask(server.port, "127.0.0.2"));
      flood.push(...some);
      await Promise.all(some);
      const operator = await ask(server.port, "127.0.0.3");
      expect(operator.response).toMatch(served);
      operator.close();
    }
    for (const { response, close } of await Promise.all(flood)) {
      expect(response).toMatch(served);
      close();
    }
  });
});

describe("a connection that reaches its maximum age", () => {
  test("accepts no more calls, and finishes those in flight (HTTP/2)", async () => {
    const released = Promise.withResolvers<void>();
    const late = serving((exchange) => void released.promise.then(() => exchange.send(okResponse("late"))));
    await using server = await listen({ connectionAgeMs: 50 }, late);
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    const served = text(session.request({ ":path": "/" }));
    const [code, lastStreamId] = (await once(session, "goaway")) as [number, number];
    // The first GOAWAY announces the shutdown; streams in transit are still served.
    expect([code, lastStreamId]).toEqual([http2.constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1]);
    const [, taken] = (await once(session, "goaway")) as [number, number];
    expect(taken).toBe(1);
    released.resolve();
    expect(await served).toBe("late");
    await once(session, "close");
    expect(server.reached).toEqual(["connectionAgeMs"]);
  });

  test("closes with its next response (HTTP/1)", async () => {
    await using server = await listen({ connectionAgeMs: 50 });
    using raw = await openRaw(server.port);
    raw.write(getHead);
    expect(await raw.until(/hello/)).toMatch(/Connection: keep-alive/);
    await expect.poll(() => server.reached).toEqual(["connectionAgeMs"]);
    raw.write(getHead);
    expect(await raw.closed()).toMatch(/hello.*Connection: close.*hello$/s);
  });

  test("stays open without the limit", async () => {
    await using server = await listen({ connectionAgeMs: undefined });
    await using aging = await listen({ connectionAgeMs: 50 });
    using raw = await openRaw(server.port);
    using other = await openRaw(aging.port);
    raw.write(getHead);
    other.write(getHead);
    await raw.until(/hello/);
    await expect.poll(() => aging.reached).toEqual(["connectionAgeMs"]);
    raw.write(getHead);
    expect(await raw.until(/hello.*hello/s)).not.toMatch(/Connection: close/);
  });
});
