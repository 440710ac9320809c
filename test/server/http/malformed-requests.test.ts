import { once } from "node:events";
import http2 from "node:http2";
import { describe, expect, test } from "vitest";
import type { ExchangeHandler } from "../../../src/server/http/exchange.ts";
import { okResponse, readText, serving } from "./exchange-handler.ts";
import { flag, frame, openRaw2, post, type } from "./frames.ts";
import { openRaw } from "./raw-connection.ts";
import { hello, listen, held, readChunks, get2, preface } from "./open-listener.ts";

describe("a malformed request behind another one", () => {
  const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const brokenChunk = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n";

  test.each([
    ["noise", "\0noise\r\n\r\n", 400],
    ["noise in pieces", ["\0noise\r\n", "more\r\n\r\n"], 400],
    ["a head that is too large", `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(100_000)}\r\n\r\n`, 431],
  ])("is answered after it: %s", async (_name, noise, status) => {
    const { handler, arrived, release } = held();
    const malformed: number[] = [];
    await using server = await listen(handler, { onMalformed: (each) => void malformed.push(each) });
    using raw = await openRaw(server.port);
    raw.write(get);
    await arrived;
    for (const piece of [noise].flat()) {
      raw.write(piece);
    }
    // The server has read it, since it answers another connection that came later.
    using other = await openRaw(server.port);
    other.write("\0");
    await other.closed();
    release();
    const received = await raw.closed();
    expect(received.match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 200", `HTTP/1.1 ${status}`]);
    expect(received).toMatch(/late.*Connection: close/s);
    expect(malformed).toEqual([400, status]);
  });

  test("is answered after all of them", async () => {
    const { handler, arrived, release } = held();
    await using server = await listen(handler);
    using raw = await openRaw(server.port);
    raw.write(`${get}${get}\0`);
    await arrived;
    release();
    expect((await raw.closed()).match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 400"]);
  });

  test("that has begun is answered after it", async () => {
    const { handler, arrived, release } = held();
    const serve: ExchangeHandler = (exchange, refusal) => {
      if (exchange.method === "GET") {
        handler(exchange, refusal);
      } else {
        // It never ends.
        void readText(exchange).catch(() => {});
      }
    };
    await using server = await listen(serve);
    using raw = await openRaw(server.port);
    raw.write(get + brokenChunk);
    await arrived;
    release();
    expect((await raw.closed()).match(/HTTP\/1.1 \d+|late/g)).toEqual(["HTTP/1.1 200", "late", "HTTP/1.1 400"]);
  });

  test("does not cut a response that has begun", async () => {
    const goOn = Promise.withResolvers<void>();
    async function* parts() {
      yield Buffer.from("first ");
      await goOn.promise;
      yield Buffer.from("last");
    }
    await using server = await listen(serving((exchange) => exchange.send(okResponse(parts()))));
    using raw = await openRaw(server.port);
    raw.write(get);
    await raw.until(/first/);
    raw.write("\0");
    using other = await openRaw(server.port);
    other.write("\0");
    await other.closed();
    goOn.resolve();
    expect(await raw.closed()).toMatch(/first.*last.*HTTP\/1.1 400/s);
  });

  test.each([
    ["noise", "\0"],
    ["a request that has not ended", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"],
  ])("does not keep a response from ending when its client leaves: %s", async (_name, bytes) => {
    const ended = Promise.withResolvers<void>();
    async function* parts() {
      yield Buffer.from("first ");
      await new Promise(() => {});
    }
    const serve = serving((exchange) => {
      exchange.observer = { closed: ended.resolve, interrupted: () => {} };
      exchange.send(okResponse(parts()));
    });
    await using server = await listen(serve);
    using raw = await openRaw(server.port);
    raw.write(get);
    await raw.until(/first/);
    raw.write(bytes);
    using other = await openRaw(server.port);
    other.write("\0");
    await other.closed();
    raw[Symbol.dispose]();
    await expect(ended.promise).resolves.toBeUndefined();
  });

  test("that ends the connection gets no answer", async () => {
    const { handler, arrived, release } = held();
    await using server = await listen(handler);
    using raw = await openRaw(server.port);
    raw.write(`GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n\0`);
    await arrived;
    release();
    expect(await raw.closed()).toMatch(/^HTTP\/1.1 200 [^]*late$/);
  });
});

describe("Host", () => {
  const ask = async (hosts: string) => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.write(`GET / HTTP/1.1\r\n${hosts}Connection: close\r\n\r\n`);
    return await raw.closed();
  };

  test.each(["Host: a\r\nHost: b\r\n", "Host: a\r\nX: y\r\nhOST: a\r\n", ""])("must occur once: %j", async (hosts) => {
    expect(await ask(hosts)).toMatch(/^HTTP\/1.1 400 /);
  });

  test("that occurs once is served", async () => {
    expect(await ask("Host: a\r\nHosts: b\r\nX-Host: c\r\n")).toMatch(/^HTTP\/1.1 200 .*hello$/s);
  });
});

describe("an invalid connection", () => {
  test.each([
    ["sends nothing", ""],
    ["stops inside the preface", "PRI * HT"],
    ["stops one byte before the preface's end", preface.slice(0, -1)],
  ])("is closed when it %s", async (_what, bytes) => {
    await using server = await listen(hello, { firstByteTimeoutMs: 50 });
    using raw = await openRaw(server.port);
    raw.write(bytes);
    expect(await raw.closed()).toBe("");
  });

  test("is closed when it half-closes before its protocol is detected", async () => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.socket.end("PR");
    expect(await raw.closed()).toBe("");
  });

  test.each([
    ["garbage", "\x16\x03\x01\x02garbage\r\n\r\n", 400, "invalid_request"],
    ["a header over 16 KiB", `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(40_000)}\r\n\r\n`, 431, "headers_too_large"],
    [
      "both lengths",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
      400,
      "invalid_request",
    ],
  ])("gets an error response: %s", async (_what, bytes, status, code) => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.write(bytes);
    const httpResponse = await raw.closed();
    expect(httpResponse).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(httpResponse.slice(httpResponse.indexOf("{")))).toMatchObject({ code });
  });

  test("gets 408 when its header does not end", async () => {
    await using server = await listen(hello, { headersTimeoutMs: 50 });
    using raw = await openRaw(server.port);
    raw.write("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    expect(await raw.closed()).toMatch(/^HTTP\/1.1 408 .*"request_timeout"/s);
  });

  test("does no harm with a broken HTTP/2 frame", async () => {
    await using server = await listen();
    using raw = await openRaw(server.port);
    raw.write(preface);
    raw.write(Buffer.alloc(1_000, 0xff));
    await raw.closed();
    using next = await openRaw(server.port);
    next.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await next.until(/hello/)).toMatch(/200 OK/);
  });

  test("does no harm when it is reset", async () => {
    await using server = await listen();
    for (const bytes of ["", "PRI", preface, "GET / HT", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"]) {
      using raw = await openRaw(server.port);
      raw.write(bytes);
      raw.socket.resetAndDestroy();
    }
    using next = await openRaw(server.port);
    next.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    expect(await next.until(/hello/)).toMatch(/200 OK/);
  });

  test("is rejected with a header over 16 KiB over HTTP/2", async () => {
    await using server = await listen();
    const session = http2.connect(`http://127.0.0.1:${server.port}`);
    session.on("error", () => {});
    // Limits apply once the client has received them.
    await get2(session);
    const stream = session.request({ ":path": "/", "x-large": "x".repeat(40_000) });
    await expect(once(stream, "response")).rejects.toThrow(/ENHANCE_YOUR_CALM/);
    session.destroy();
  });
});

test.each([
  ["as a whole", readText],
  ["in chunks", readChunks],
])("the body of a POST without one is read as empty, %s", async (_how, read) => {
  const handler = serving((exchange) => {
    void read(exchange).then((body) => exchange.send(okResponse(`${exchange.target} [${body}]`)));
  });
  await using server = await listen(handler);
  using raw = await openRaw(server.port);
  for (const path of ["/one", "/two"]) {
    raw.write(`POST ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect(await raw.until(new RegExp(`${path} \\[.*\\]`))).toContain(`${path} []`);
  }
});

test.each([
  ["as a whole", readText, false],
  ["in chunks", readChunks, false],
  ["as a whole, after the end", readText, true],
  ["in chunks, after the end", readChunks, true],
])("a body that its client ends early without an error is not treated as complete, %s", async (_how, read, waits) => {
  const outcome = Promise.withResolvers<string>();
  await using server = await listen(
    serving((exchange) => {
      const closed = new Promise<void>((resolve) => {
        exchange.observer = { closed: resolve, interrupted() {} };
      });
      const reading = waits ? closed.then(() => read(exchange)) : read(exchange);
      reading.then(
        (body) => outcome.resolve(`got ${body}`),
        (error: Error) => outcome.resolve(error.message),
      );
    }),
  );
  using raw = await openRaw2(server.port);
  const noError = Buffer.alloc(4);
  raw.write(
    Buffer.concat([post(1), frame(type.data, 0, 1, Buffer.from("part")), frame(type.rstStream, 0, 1, noError)]),
  );
  expect(await outcome.promise).toBe("the connection was closed before the end of the body");
});

describe("repeated fields", () => {
  const twice = [
    ["authorization", "Bearer a"],
    ["authorization", "Bearer b"],
  ] as const;
  const rejecting: ExchangeHandler = (exchange, rejection) => exchange.send(rejection ?? okResponse("hello"));

  test.each([
    ["Authorization: Bearer a\r\nAUTHORIZATION: Bearer b\r\n", /^HTTP\/1.1 400 .*at most one Authorization field/s],
    ["Host: b\r\n", /^HTTP\/1.1 400 .*connection: close.*one Host field/is],
    ["Authorization: Bearer a\r\n", /^HTTP\/1.1 200 .*hello/s],
  ])("over HTTP/1.1: %j", async (fields, expected) => {
    await using server = await listen(rejecting);
    using raw = await openRaw(server.port);
    raw.write(`GET / HTTP/1.1\r\nHost: a\r\n${fields}Connection: close\r\n\r\n`);
    expect(await raw.closed()).toMatch(expected);
  });

  test.each([
    ["two Authorization fields", twice, /at most one Authorization field/],
    ["one Authorization field", twice.slice(1), /hello/],
  ] as const)("over HTTP/2: %s", async (_, fields, expected) => {
    await using server = await listen(rejecting);
    using raw = await openRaw2(server.port);
    raw.write(post(1, fields));
    raw.write(frame(type.data, flag.endStream, 1));
    expect(await raw.until(expected)).toMatch(expected);
  });
});
