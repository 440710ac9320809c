import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { StreamsService, type Item } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { serveStreams, type Streams } from "../../../serve-streams.ts";
import { detectsTruncatedZstd } from "../../../zstd.ts";

/** A test service that records the received bodies. */
async function sum(server: Streams, path: string, body: Uint8Array[], headers: Record<string, string>) {
  const response = await server.request("POST", path, { headers, body });
  return {
    status: response.status,
    headers: response.headers,
    body: JSON.parse((await response.read()).body) as unknown,
  };
}

const serve = (readMaxBytes = 1000): Promise<Streams> =>
  serveStreams("HTTP/1.1", {
    readMaxBytes,
    routes: (router) =>
      router.service(StreamsService, {
        async *search({ shelf }) {
          yield { text: shelf };
        },
        async sum(requests: AsyncIterable<Item>) {
          let count = 0;
          for await (const request of requests) {
            count += request.count;
          }
          return { count };
        },
      }),
  });

const codings: [string, (bytes: Buffer) => Buffer][] = [
  ["gzip", gzipSync],
  ["x-gzip", gzipSync],
  ["BR", brotliCompressSync],
  [" zstd ", zstdCompressSync],
  ["identity", (bytes) => bytes],
  ["", (bytes) => bytes],
];

/** Bytes after the end of the compressed data. */
const behind = Buffer.from("xx");

describe("a streamed body", () => {
  const ndjson = { "content-type": "application/x-ndjson" };
  const lines = Buffer.from('{"count":1}\n'.repeat(10_000));

  test.each(codings)("is decompressed as it arrives, without a size limit: %s", async (encoding, compress) => {
    await using server = await serve();
    const packed = compress(lines);
    const half = Math.floor(packed.length / 2);
    const reply = await sum(server, "/streams/sum", [packed.subarray(0, half), packed.subarray(half)], {
      ...ndjson,
      "content-encoding": encoding,
    });
    expect(reply).toMatchObject({ status: 200, body: { count: 10_000 } });
  });

  test.each<[string, Buffer, number, object]>([
    ["gzip", Buffer.from('{"count":1}\n'), 400, { code: "invalid_argument", reason: "invalid_encoding" }],
    ["gzip", gzipSync(lines).subarray(0, -100), 400, { code: "invalid_argument", reason: "invalid_encoding" }],
    [
      "zstd",
      detectsTruncatedZstd ? zstdCompressSync(lines).subarray(0, -9) : lines,
      400,
      { code: "invalid_argument", reason: "invalid_encoding" },
    ],
    ["gzip", Buffer.concat([gzipSync(lines), behind]), 400, { code: "invalid_argument", reason: "invalid_encoding" }],
    [
      "br",
      Buffer.concat([brotliCompressSync(lines), behind]),
      400,
      { code: "invalid_argument", reason: "invalid_encoding" },
    ],
    [
      "zstd",
      Buffer.concat([zstdCompressSync(lines), behind]),
      400,
      { code: "invalid_argument", reason: "invalid_encoding" },
    ],
    ["gzip", gzipSync(Buffer.alloc(50_000_000, " ")), 413, { message: "line 1: longer than 1000 bytes" }],
    ["deflate", deflateSync(lines), 415, { message: "the Content-Encoding must be one of gzip, br, zstd" }],
  ])("that does not match %s is rejected", async (encoding, body, status, expected) => {
    await using server = await serve();
    const reply = await sum(server, "/streams/sum", [body], { ...ndjson, "content-encoding": encoding });
    expect(reply).toMatchObject({ status, body: expected });
    expect(reply.headers["accept-encoding"]).toBe(status === 415 ? "gzip, br, zstd" : undefined);
  });
});

describe("a whole body", () => {
  const json = { "content-type": "application/json" };

  test.each(codings)("is decompressed: %s", async (encoding, compress) => {
    await using server = await serve();
    const body = compress(Buffer.from('{"shelf":"a"}'));
    expect(await sum(server, "/streams/search", [body], { ...json, "content-encoding": encoding })).toMatchObject({
      status: 200,
      body: { text: "a" },
    });
  });

  test("that exceeds the limit when decompressed is rejected early", async () => {
    await using server = await serve();
    const body = gzipSync(Buffer.alloc(50_000_000, " "));
    await using roomy = await serve(100_000);
    for (const [each, message] of [
      [server, "the body is larger than 1000 bytes"],
      [roomy, "the decompressed body is larger than 100000 bytes"],
    ] as const) {
      expect(await sum(each, "/streams/search", [body], { ...json, "content-encoding": "gzip" })).toMatchObject({
        status: 413,
        body: { message },
      });
    }
  });

  test("that is invalid or truncated is rejected", async () => {
    await using server = await serve();
    for (const body of [Buffer.from("{}"), gzipSync("{}").subarray(0, -4)]) {
      expect(await sum(server, "/streams/search", [body], { ...json, "content-encoding": "gzip" })).toMatchObject({
        status: 400,
        body: { code: "invalid_argument", reason: "invalid_encoding" },
      });
    }
  });
});
