import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import { text } from "node:stream/consumers";
import { describe, expect, test, vi } from "vitest";
import { createListener } from "../../../src/server/http/listener.ts";
import { okResponse, readText, serving } from "./exchange-handler.ts";
import { openRaw } from "./raw-connection.ts";
import { hello, listen, held, get2, preface } from "./open-listener.ts";

const settingsFrame = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);

/** An empty SETTINGS frame with ACK on stream 0. */
const settingsAcknowledged = new RegExp(Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0]).toString("latin1"));

test("a version of Node.js that handles new connections otherwise is rejected at the start", () => {
  using _ = vi.spyOn(http.Server.prototype, "listeners").mockReturnValue([]);
  expect(() => createListener(hello)).toThrow(
    "HTTP/1.1 can't be served: this version of Node.js handles new connections otherwise: use Node.js 26",
  );
});

test("what a version of Node.js does not expose is reported", async () => {
  const reported: string[] = [];
  const server = createListener(hello, { closeGraceMs: 2_000, onDegraded: (message) => reported.push(message) });
  const internals = server as unknown as { _handle: object };
  let handle: object = {};
  server.prependOnceListener("listening", () => ([handle, internals._handle] = [internals._handle, {}]));
  server.once("listening", () => (internals._handle = handle));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  await new Promise<void>((resolve) => server.close(() => resolve()));
  expect(reported).toEqual([
    "stalled responses are not detected: this version of Node does not expose how many bytes were sent",
    "HTTP/2 connections close without advance notice: this version of Node does not expose their descriptors",
  ]);
});

test("the version of Node.js that runs the tests exposes all of it", async () => {
  const reported: string[] = [];
  await using _ = await listen(hello, { onDegraded: (message) => reported.push(message) });
  expect(reported).toEqual([]);
});

describe("one port", () => {
  test("serves HTTP/1.1 and keeps the connection", async () => {
    await using server = await listen();
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const ports = [];
    for (let i = 0; i < 3; i++) {
      const request = http.get({ port: server.port, host: "127.0.0.1", agent });
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      ports.push(request.socket?.localPort);
      expect(await text(response)).toBe("hello");
    }
    expect(new Set(ports).size).toBe(1);
    agent.destroy();
  });

  test("serves HTTP/2 without TLS", async () => {
    await using server = await listen();
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    expect(await Promise.all([get2(session), get2(session)])).toEqual(["hello", "hello"]);
    session.destroy();
  });

  test("detects both protocols when bytes arrive one by one", async () => {
    await using server = await listen();
    using one = await openRaw(server.port);
    for (const byte of "GET / HTTP/1.1\r\nHost: a\r\n\r\n") {
      one.write(byte);
      await new Promise(setImmediate);
    }
    expect(await one.until(/hello/)).toMatch(/^HTTP\/1.1 200 OK/);

    using two = await openRaw(server.port);
    for (const byte of preface) {
      two.write(byte);
      await new Promise(setImmediate);
    }
    two.write(settingsFrame);
    expect(await two.until(settingsAcknowledged)).toMatch(settingsAcknowledged);
  });

  test("treats a method that begins like the preface as HTTP/1", async () => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.write("PRI / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await raw.until(/}/)).toMatch(/^HTTP\/1.1 400 /);
  });

  test("ignores Upgrade and responds over HTTP/1.1", async () => {
    await using server = await listen();
    for (const protocol of ["websocket", "h2c"]) {
      using raw = await openRaw(server.port);
      raw.write(`GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
      expect(await raw.until(/hello/)).toMatch(/^HTTP\/1.1 200 OK/);
    }
  });
});

describe("Expect", () => {
  const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
  const echo = serving((exchange) => {
    void readText(exchange).then((body) => exchange.send(okResponse(`got ${body}`)));
  });

  test("100-continue gets 100 Continue when the body is read", async () => {
    await using server = await listen(echo);
    using raw = await openRaw(server.port);
    raw.write(head);
    expect(await raw.until(/\r\n\r\n/)).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    raw.write("body");
    expect(await raw.until(/got body/)).toMatch(/HTTP\/1.1 200 OK/);
  });

  test("100-continue gets no 100 Continue when the body is not read", async () => {
    await using server = await listen(hello);
    using raw = await openRaw(server.port);
    raw.write(head);
    // The client may still send the body or not, so that no other request can follow on the connection.
    expect(await raw.closed()).toMatch(/^HTTP\/1.1 200 OK.*Connection: close.*hello/s);
  });

  test("100-continue works over HTTP/2", async () => {
    await using server = await listen(echo);
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    const stream = session.request({ ":method": "POST", ":path": "/", expect: "100-continue" }, { endStream: false });
    await once(stream, "continue");
    stream.end("body");
    expect(await text(stream)).toBe("got body");
    session.destroy();
  });

  test("anything else is 417", async () => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.write("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n");
    expect(await raw.until(/}/)).toMatch(/^HTTP\/1.1 417 .*"expectation_failed"/s);
  });
});

describe("close", () => {
  test("closes idle HTTP/1 connections, idle sessions, and connections without a detected protocol", async () => {
    const server = await listen(hello, { closeGraceMs: 60_000 });
    using idle = await openRaw(server.port);
    idle.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await idle.until(/hello/);
    using silent = await openRaw(server.port);
    using partial = await openRaw(server.port);
    partial.write("PRI * HT");
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    await get2(session);
    const goaway = once(session, "goaway");
    await server.close();
    expect(await Promise.all([silent.closed(), partial.closed()])).toEqual(["", ""]);
    expect(await idle.closed()).toMatch(/hello$/);
    expect(await goaway).toEqual([http2.constants.NGHTTP2_NO_ERROR, 2 ** 31 - 1, undefined]);
  });

  test("lets calls in flight finish, with Connection: close over HTTP/1", async () => {
    for (const over of ["http1", "http2"]) {
      const { handler, arrived, release } = held();
      const server = await listen(handler, { closeGraceMs: 60_000 });
      const session = http2.connect(`http://127.0.0.1:${server.port}`);
      using raw = await openRaw(server.port);
      const httpResponse = over === "http2" ? get2(session) : raw.closed();
      if (over === "http1") {
        raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
      }
      await arrived;
      const closed = server.close();
      release();
      await closed;
      expect(await httpResponse).toMatch(over === "http2" ? /^late$/ : /Connection: close.*late/s);
    }
  });

  test("closes a connection whose response had already begun when that is complete", async () => {
    const released = Promise.withResolvers<void>();
    async function* body() {
      yield "begun";
      await released.promise;
      yield "ended";
    }
    const server = await listen(
      serving((exchange) => exchange.send(okResponse(body()))),
      { closeGraceMs: 60_000 },
    );
    using raw = await openRaw(server.port);
    raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    await raw.until(/begun/);
    const closed = server.close();
    released.resolve();
    await closed;
    expect(await raw.closed()).toMatch(/ended/);
  });

  test.each(["http1", "http2"])("aborts calls that never finish after the grace period: %s", async (over) => {
    const { handler, arrived } = held();
    const server = await listen(handler, { closeGraceMs: 50 });
    using raw = await openRaw(server.port);
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    session.on("error", () => {});
    if (over === "http1") {
      raw.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    } else {
      session.request({ ":path": "/" }).on("error", () => {});
    }
    await arrived;
    await expect(server.close()).resolves.toBeUndefined();
    session.destroy();
  });

  test("closes the connection of an HTTP/2 client that ignores GOAWAY", async () => {
    const server = await listen(hello, { closeGraceMs: 50 });
    using raw = await openRaw(server.port);
    raw.socket.allowHalfOpen = true;
    raw.write(preface);
    raw.write(settingsFrame);
    await raw.until(settingsAcknowledged);
    await expect(server.close()).resolves.toBeUndefined();
  });

  test("calls back at once if the server never listened", async () => {
    const server = createListener(hello);
    const error = await new Promise((resolve) => server.close(resolve));
    expect(error).toMatchObject({ code: "ERR_SERVER_NOT_RUNNING" });
  });
});
