import { create } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { FlowsService, GetFlowsResponseSchema } from "../../../../../../gen/flowgate/v1/flows_pb.ts";
import { createGateway, type GatewayOptions } from "../../../../src/index.ts";
import { ThingsService } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { json, serve, type Send } from "../../../serve.ts";

const decompress: Record<string, (bytes: Buffer) => Buffer> = {
  br: brotliDecompressSync,
  gzip: gunzipSync,
  zstd: zstdDecompressSync,
  identity: (bytes) => bytes,
};

/** A service whose GET /flows returns a label of the given length. */
function flows(size: number, { headers = {}, frozen = false } = {}): Pick<GatewayOptions, "routes"> {
  const response = create(GetFlowsResponseSchema, {
    rev: "r1",
    flows: [{ id: "a", type: "tab", label: "é".repeat(size) }],
  });
  if (frozen) {
    Object.freeze(response);
  }
  return {
    routes: (router: ConnectRouter) =>
      void router.service(FlowsService, {
        getFlows: (_request, context) => {
          for (const [name, value] of Object.entries(headers)) {
            context.responseHeader.set(name, value as string);
          }
          return response;
        },
      }),
  };
}

const get = (send: Send, acceptEncoding?: string, more: Record<string, string> = {}, method = "GET") =>
  send(method, "/flows", {
    headers: { ...more, ...(acceptEncoding === undefined ? {} : { "accept-encoding": acceptEncoding }) },
  });

describe("a response is compressed", () => {
  test.each([
    [undefined, "identity"],
    ["gzip", "gzip"],
    ["GZip", "gzip"],
    ["x-gzip", "gzip"],
    ["br", "br"],
    ["zstd", "zstd"],
    ["deflate", "identity"],
    ["", "identity"],
    ["gzip, deflate, br, zstd", "zstd"],
    ["gzip;q=1.0, br;q=0.9, zstd;q=0.8", "gzip"],
    ["gzip;q=0.5, *;q=0.1", "gzip"],
    ["*", "zstd"],
    ["*, zstd;q=0, br;q=0", "gzip"],
    ["gzip;q=0", "identity"],
    ["gzip;q=0.5", "gzip"],
    ["identity, gzip;q=0.5", "identity"],
    ["identity;q=0.5, gzip;q=0.5", "gzip"],
    ["identity;q=0.5, gzip;q=0.8", "gzip"],
    ["identity;q=0, br", "br"],
    ["gzip;q=nonsense", "identity"],
    ["gzip;q=2", "identity"],
    ["gzip ; q=0.5 , br ; q=0.6", "br"],
    ["__proto__, constructor;q=1", "identity"],
  ])("according to Accept-Encoding %j: %s", async (acceptEncoding, encoding) => {
    await using server = await serve(flows(2000));
    const { status, headers, bytes } = await get(server.send, acceptEncoding);
    expect(status).toBe(200);
    expect(headers["content-encoding"] ?? "identity").toBe(encoding);
    expect(headers["vary"]).toBe("Service-API-Version, Accept-Encoding");
    expect(headers["content-length"]).toBe(String(bytes.length));
    expect(headers["etag"]).toBe(encoding === "identity" ? '"r1"' : `"r1-${encoding}"`);
    expect(JSON.parse(decompress[encoding]?.(bytes).toString() ?? "")).toEqual([
      { id: "a", type: "tab", label: "é".repeat(2000) },
    ]);
  });

  test.each([["*;q=0"], ["identity;q=0"], ["identity;q=0, deflate"], ["*;q=0, deflate"]])(
    "but is 406 before the implementation runs if %j excludes all codings",
    async (acceptEncoding) => {
      let calls = 0;
      await using server = await serve({
        routes: (router) => void router.rpc(ThingsService.method.openThing, () => (calls++, { id: "x" })),
      });
      const reply = await server.send("PUT", "/things/open", {
        headers: { ...json, "accept-encoding": acceptEncoding },
        body: '{"id":"x"}',
      });
      expect([reply.status, JSON.parse(reply.body), calls]).toEqual([
        406,
        {
          code: "invalid_argument",
          reason: "not_acceptable",
          message: "Accept-Encoding excludes all supported content codings",
        },
        0,
      ]);
    },
  );

  test("but not below the threshold, unless identity is excluded", async () => {
    await using server = await serve(flows(10));
    const small = await get(server.send, "gzip");
    expect([small.headers["content-encoding"], small.headers["vary"], small.headers["etag"]]).toEqual([
      undefined,
      "Service-API-Version",
      '"r1"',
    ]);
    const forced = await get(server.send, "gzip, identity;q=0");
    expect(forced.headers["content-encoding"]).toBe("gzip");
    await using eager = await serve({ ...flows(10), compression: { minBytes: 0 } });
    expect((await get(eager.send, "gzip")).headers["content-encoding"]).toBe("gzip");
  });

  test("but not if the option disables it or does not contain the coding", async () => {
    await using off = await serve({ ...flows(2000), compression: false });
    const plain = await get(off.send, "gzip, identity;q=0");
    expect([plain.status, plain.headers["content-encoding"], plain.headers["vary"]]).toEqual([
      200,
      undefined,
      "Service-API-Version",
    ]);
    await using only = await serve({ ...flows(2000), compression: { encodings: ["gzip"] } });
    expect((await get(only.send, "gzip, br, zstd")).headers["content-encoding"]).toBe("gzip");
  });

  test("but not with no-transform", async () => {
    await using server = await serve(flows(2000, { headers: { "cache-control": "private, No-Transform" } }));
    const { headers } = await get(server.send, "gzip");
    expect([headers["content-encoding"], headers["vary"]]).toEqual([undefined, "Service-API-Version"]);
  });

  test("with a single Vary that includes that of the implementation", async () => {
    await using server = await serve(flows(2000, { headers: { vary: "Cookie, accept-encoding" } }));
    expect((await get(server.send, "gzip")).headers["vary"]).toBe("Cookie, accept-encoding, Service-API-Version");
    await using any = await serve(flows(2000, { headers: { vary: "*" } }));
    expect((await get(any.send, "gzip")).headers["vary"]).toBe("*");
  });

  test("once for a frozen message", async () => {
    await using server = await serve(flows(100_000, { frozen: true }));
    const replies = await Promise.all(["gzip", "gzip", "br", "gzip", "zstd"].map((each) => get(server.send, each)));
    const all = replies.map(({ headers, bytes }) => decompress[String(headers["content-encoding"])]?.(bytes).length);
    expect(new Set(all).size).toBe(1);
    // The gzip header contains no time (RFC 1952), so identity of the bytes shows that they were compressed once.
    expect(replies[0]?.bytes.equals(replies[1]?.bytes ?? Buffer.of())).toBe(true);
  });

  test("also for HEAD, whose headers are those of GET", async () => {
    await using server = await serve(flows(2000));
    const full = await get(server.send, "br");
    const head = await get(server.send, "br", {}, "HEAD");
    for (const name of ["content-encoding", "content-length", "content-type", "etag", "vary"]) {
      expect(head.headers[name]).toBe(full.headers[name]);
    }
    expect(head.bytes).toHaveLength(0);
  });
});

describe("a compressed response has its own entity tag", () => {
  test.each([
    ['"r1-gzip"', "gzip", 304, '"r1-gzip"'],
    ['"r1-gzip"', undefined, 304, '"r1-gzip"'],
    ['"r1"', "gzip", 304, '"r1"'],
    ['W/"r1-br"', "br", 304, '"r1-br"'],
    ['"x", "r1-zstd"', "gzip", 304, '"r1-zstd"'],
    ["*", "gzip", 304, '"r1"'],
    ['"r1-deflate"', "gzip", 200, '"r1-gzip"'],
    ['"r2"', undefined, 200, '"r1"'],
  ])("If-None-Match: %s, Accept-Encoding: %s is %i with %s", async (ifNoneMatch, encoding, status, etag) => {
    await using server = await serve(flows(2000));
    const reply = await get(server.send, encoding, { "if-none-match": ifNoneMatch });
    expect([reply.status, reply.headers["etag"], reply.headers["vary"]]).toEqual([
      status,
      etag,
      status === 304 ? "Accept-Encoding, Service-API-Version" : "Service-API-Version, Accept-Encoding",
    ]);
  });

  test("and a 304 has no headers about a body", async () => {
    await using server = await serve(flows(2000));
    const { bytes, headers } = await get(server.send, "gzip", { "if-none-match": '"r1-gzip"' });
    expect(bytes).toHaveLength(0);
    expect(Object.keys(headers).filter((name) => name.startsWith("content-"))).toEqual([]);
  });

  test("a disabled coding has no entity tag", async () => {
    await using server = await serve({ ...flows(2000), compression: false });
    expect((await get(server.send, undefined, { "if-none-match": '"r1-gzip"' })).status).toBe(200);
    expect((await get(server.send, undefined, { "if-none-match": '"r1"' })).headers["vary"]).toBe(
      "Service-API-Version",
    );
  });
});

test("an unknown encoding is rejected at start-up", () => {
  expect(() => createGateway({ ...flows(1), compression: { encodings: ["deflate" as never] } })).toThrow(
    'the option compression.encodings must be an array of "zstd", "br", "gzip", not ["deflate"]',
  );
});
