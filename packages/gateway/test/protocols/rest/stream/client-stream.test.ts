import { once } from "node:events";
import { connect } from "node:http2";
import { describe, expect, test } from "vitest";
import { collect, type HttpVersion, type Streams } from "../../../serve-streams.ts";
import { type Implementation, ndjson, serve } from "./streams-service.ts";

describe.each<[HttpVersion]>([["HTTP/1.1"], ["HTTP/2"]])("a client stream over %s", (version) => {
  const sum: Implementation = {
    async sum(requests) {
      let count = 0;
      let text = "";
      for await (const request of requests) {
        count += request.count;
        text += request.text;
      }
      return { count, text };
    },
  };
  const send = async (
    server: Streams,
    body: Iterable<Uint8Array> | string,
    headers: Record<string, string> = ndjson,
  ) => {
    const response = await server.request("POST", "/streams/sum", { headers, body });
    return [response.status, JSON.parse((await response.read()).body)];
  };

  test.each([
    ['{"count":1}\n{"count":2}\n', { count: 3 }],
    ['{"count":1}\r\n\n  \r\n{"count":2}', { count: 3 }],
    ["", {}],
    ["\n\n", {}],
    ['{"text":"\u00fc"}', { text: "\u00fc" }],
  ])("reads a message from each line: %j", async (body, expected) => {
    await using server = await serve(version, sum);
    expect(await send(server, body)).toEqual([200, expected]);
    // Independent of how the body is chunked.
    const bytes = Array.from(Buffer.from(body), (byte) => Buffer.of(byte));
    expect(await send(server, bytes)).toEqual([200, expected]);
  });

  test.each([
    ['{"count":1}\n\n{"count":"x"}\n', "line 3: count: must be a 32-bit integer"],
    ['{"count":1}\n{"count":2', "line 2: not valid JSON: unexpected end (column 11)"],
    ['{"count":1} {"count":2}', "line 1: not valid JSON: unexpected text after the end of the document (column 13)"],
    ['{"count":1,"count":2}', "line 1: count: duplicate key"],
    ["[]", "line 1: must be an object"],
  ])("has line and path in the error of an invalid message: %j", async (body, message) => {
    await using server = await serve(version, sum);
    expect(await send(server, body)).toMatchObject([400, { code: "invalid_argument", message }]);
  });

  test("has a request error, regardless of the implementation's own error", async () => {
    await using server = await serve(version, {
      async sum(requests) {
        try {
          await collect(requests);
        } catch (error) {
          throw new Error("wrapped", { cause: error });
        }
        return {};
      },
    });
    expect(await send(server, "{")).toMatchObject([400, { code: "invalid_argument", reason: "invalid_json" }]);
  });

  test("has a size limit for each line, not in total", async () => {
    await using server = await serve(version, sum, { readMaxBytes: 20 });
    expect(await send(server, '{"count":1}\n'.repeat(100))).toEqual([200, { count: 100 }]);
    expect(await send(server, `{"count":1}\n{"text":"${"x".repeat(20)}"}`)).toEqual([
      413,
      { code: "resource_exhausted", reason: "payload_too_large", message: "line 2: longer than 20 bytes" },
    ]);
  });

  test.each([
    [{ "content-type": "text/plain" }, 415],
    [{ "content-type": "application/json; charset=utf-16" }, 415],
    [{ "content-type": "application/x-ndjson; charset=utf-16" }, 415],
    [{ "content-type": "application/jsonl; charset=UTF-8" }, 200],
    [{}, 415],
  ])("is %j: %i", async (headers, status) => {
    await using server = await serve(version, sum);
    const response = await server.request("POST", "/streams/sum", { headers, body: "{}" });
    expect([response.status, response.headers["accept-post"]]).toEqual([
      status,
      status === 415 ? "application/x-ndjson, application/json" : undefined,
    ]);
  });

  const json = { "content-type": "application/json" };

  test.each([
    ['[{"count":1},{"count":2}]', { count: 3 }],
    [' \n[ {"count":1}\r\n,\t{"text":"],[}{\\",\\\\"} ] \n', { count: 1, text: '],[}{",\\' }],
    ["[]", {}],
    [" [ ] ", {}],
    [" ", {}],
    ['[{"text":"\u00fc"}]', { text: "\u00fc" }],
  ])("reads a message from each item of a JSON array: %j", async (body, expected) => {
    await using server = await serve(version, sum);
    expect(await send(server, body, json)).toEqual([200, expected]);
    // Independent of how the body is chunked.
    const bytes = Array.from(Buffer.from(body), (byte) => Buffer.of(byte));
    expect(await send(server, bytes, json)).toEqual([200, expected]);
  });

  test.each([
    ['[{"count":1},\n{"count":"x"}]', "item 2: count: must be a 32-bit integer"],
    [
      '[{"count":1} {"count":2}]',
      "item 1: not valid JSON: unexpected text after the end of the document (line 1, column 13)",
    ],
    ["[,{}]", "item 1: empty; a JSON document was expected"],
    ["[{},]", "item 2: empty; a JSON document was expected"],
    ["[{]}]", "item 1: not valid JSON: a key in double quotes was expected (line 1, column 2)"],
    ['[{"count":1}', "the body is not valid JSON: unexpected end"],
    ["[{}] []", "the body is not valid JSON: unexpected text after the end of the array"],
    ['{"count":1}', "the body is not valid JSON: a JSON array was expected"],
  ])("has the item in the error of an invalid array: %j", async (body, message) => {
    await using server = await serve(version, sum);
    expect(await send(server, body, json)).toMatchObject([400, { code: "invalid_argument", message }]);
  });

  test("has a size limit for each item of an array, not in total", async () => {
    await using server = await serve(version, sum, { readMaxBytes: 20 });
    expect(await send(server, `[${Array(100).fill('{"count":1}').join(", ")}]`, json)).toEqual([200, { count: 100 }]);
    expect(await send(server, `[{"count":1},{"text":"${"x".repeat(20)}"}]`, json)).toEqual([
      413,
      { code: "resource_exhausted", reason: "payload_too_large", message: "item 2: longer than 20 bytes" },
    ]);
  });

  test("passes on an item of an array before the next one arrives", async () => {
    const received = Promise.withResolvers<void>();
    await using server = await serve(version, {
      async sum(requests) {
        let count = 0;
        for await (const request of requests) {
          count += request.count;
          received.resolve();
        }
        return { count };
      },
    });
    async function* body() {
      yield Buffer.from('[{"count":1},');
      await received.promise;
      yield Buffer.from('{"count":2}]');
    }
    const response = await server.request("POST", "/streams/sum", { headers: json, body: body() });
    expect((await response.read()).body).toBe('{"count":3}');
  });

  test("takes no query, and responds like a unary call", async () => {
    await using server = await serve(version, sum);
    expect((await server.request("POST", "/streams/sum?x=1", { headers: ndjson, body: "" })).status).toBe(400);
    const accept = "application/x-ndjson";
    const refused = await server.request("POST", "/streams/sum", { headers: { ...ndjson, accept }, body: "" });
    expect(refused.status).toBe(406);
  });

  test("reaches the implementation while it is sent, which can respond before its end", async () => {
    await using server = await serve(version, {
      async sum(requests) {
        for await (const { text } of requests) {
          return { text };
        }
        return {};
      },
    });
    const { promise: responded, resolve: setResponded } = Promise.withResolvers<void>();
    const response = await server.request("POST", "/streams/sum", {
      headers: ndjson,
      body: (async function* () {
        yield '{"text":"first"}\n';
        await responded;
      })(),
    });
    expect((await response.read()).body).toBe('{"text":"first"}');
    setResponded();
  });

  test("fails if the client disconnects", async () => {
    const { promise: failed, resolve: fail } = Promise.withResolvers<string>();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    await using server = await serve(version, {
      async sum(requests, { signal }) {
        try {
          for await (const _request of requests) {
            start();
          }
        } catch (error) {
          fail(`${String(error)} ${signal.aborted}`);
        }
        return {};
      },
    });
    const response = server
      .request("POST", "/streams/sum", {
        headers: ndjson,
        body: (async function* () {
          yield '{"text":"first"}\n';
          await new Promise(() => {});
        })(),
      })
      .catch(() => "no answer");
    await started;
    await server[Symbol.asyncDispose]();
    expect(await failed).toMatch(/the connection was closed before the end of the body/);
    await response;
  });
});

test("the rest of an HTTP/2 request can still be sent after the response", async () => {
  await using server = await serve("HTTP/2", {
    async uploadNamed(chunks) {
      for await (const { chunk } of chunks) {
        return { bytes: BigInt(Math.sign(chunk?.data.length ?? 0)) };
      }
      return {};
    },
  });
  const session = connect(`http://127.0.0.1:${(server.app.server.address() as { port: number }).port}`);
  const request = session.request({ ":method": "PUT", ":path": "/streams/upload/n" }, { endStream: false });
  const closed = once(request, "close");
  // More than the flow-control window of a stream.
  request.end(Buffer.alloc(200_000));
  request.resume();
  await closed;
  expect(request.rstCode).toBe(0);
  session.close();
});
