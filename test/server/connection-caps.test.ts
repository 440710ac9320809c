import { once } from "node:events";
import http2 from "node:http2";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { answer, serving } from "./exchanges.ts";
import { listen } from "./limits.ts";
import { openRaw } from "./raw.ts";

const getHead = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/** What a client from this address is answered; empty where it is refused. */
async function ask(port: number, localAddress: string): Promise<{ answer: string; close: () => void }> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => {});
  socket.write(getHead);
  const answer = await new Promise<string>((resolve) => {
    socket.once("data", (bytes: Buffer) => resolve(bytes.toString()));
    socket.once("close", () => resolve(""));
  });
  return { answer, close: () => void socket.destroy() };
}

const served = /200 OK.*hello/s;

describe("connections at once", () => {
  test.each([
    ["of all sources", { connections: 2 }, "127.0.0.3"],
    ["of one source", { connectionsPerSource: 2 }, "127.0.0.1"],
  ])("%s are so many, and more only as others end", async (_what, limits, third) => {
    await using server = await listen(limits);
    const first = await ask(server.port, "127.0.0.1");
    const second = await ask(server.port, third === "127.0.0.1" ? "127.0.0.1" : "127.0.0.2");
    expect([first.answer, second.answer]).toEqual([expect.stringMatching(served), expect.stringMatching(served)]);
    expect((await ask(server.port, third)).answer).toBe("");
    expect(server.reached).toEqual(Object.keys(limits));
    first.close();
    await expect.poll(() => server.connections()).toBe(1);
    const again = await ask(server.port, third);
    expect(again.answer).toMatch(served);
    again.close();
    second.close();
  });

  test("of one source leave room for others", async () => {
    await using server = await listen({ connectionsPerSource: 1 });
    const one = await ask(server.port, "127.0.0.1");
    const other = await ask(server.port, "127.0.0.2");
    expect([one.answer, other.answer]).toEqual([expect.stringMatching(served), expect.stringMatching(served)]);
    one.close();
    other.close();
  });

  test.each([
    ["without the limit", { connectionsPerSource: 1_000 }],
    ["of a proxy", { connectionsPerSource: 1, isProxy: (address: string | undefined) => address === "127.0.0.1" }],
  ])("%s are as many as come", async (_what, limits) => {
    await using server = await listen(limits);
    const all = await Promise.all(Array.from({ length: 5 }, () => ask(server.port, "127.0.0.1")));
    expect(all.map(({ answer }) => served.test(answer))).toEqual([true, true, true, true, true]);
    all.forEach(({ close }) => close());
  });
});

describe("a connection that is old", () => {
  test("takes no more calls, and those that it has finish (HTTP/2)", async () => {
    const released = Promise.withResolvers<void>();
    const late = serving((exchange) => void released.promise.then(() => exchange.send(answer("late"))));
    await using server = await listen({ connectionAgeMs: 50 }, late);
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    const served = text(session.request({ ":path": "/" }));
    const [code, lastStreamId] = (await once(session, "goaway")) as [number, number];
    // The first says that an end will come; what is on its way is served still.
    expect([code, lastStreamId]).toEqual([http2.constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1]);
    const [, taken] = (await once(session, "goaway")) as [number, number];
    expect(taken).toBe(1);
    released.resolve();
    expect(await served).toBe("late");
    await once(session, "close");
    expect(server.reached).toEqual(["connectionAgeMs"]);
  });

  test("ends with its next answer (HTTP/1)", async () => {
    await using server = await listen({ connectionAgeMs: 50 });
    using raw = await openRaw(server.port);
    raw.write(getHead);
    expect(await raw.until(/hello/)).toMatch(/Connection: keep-alive/);
    await expect.poll(() => server.reached).toEqual(["connectionAgeMs"]);
    raw.write(getHead);
    expect(await raw.closed()).toMatch(/hello.*Connection: close.*hello$/s);
  });

  test("lives on without the limit", async () => {
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
