import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { Code, ConnectError, type ServiceImpl } from "@connectrpc/connect";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { HttpBodySchema } from "../gen/google/api/httpbody_pb.ts";
import { BodiesSchema, QueryMsgSchema } from "./gen/t/v1/vectors_pb.ts";
import { RawService, StreamsService, type NamedBody } from "./gen/gatewaytest/v1/streams_pb.ts";
import { createGateway } from "../src/index.ts";
import { collect, serveStreams, type HttpVersion, type Streams } from "./serve-streams.ts";
import { createMethod, createRequest } from "./service.ts";
import { vectors } from "./vectors.ts";

type ResponseVector = {
  response_body: string;
  message: JsonValue;
  expect: { body: string | { base64: string }; contentType: string };
};

test.each(vectors<ResponseVector>("response"))("%s", async (_id, vector) => {
  const { response_body: responseBody, message, expect: expected } = vector;
  const method = createMethod(BodiesSchema, { pattern: { case: "get", value: "/x" }, responseBody });
  const gateway = createGateway({ routes: (router) => router.rpc(method, () => fromJson(BodiesSchema, message)) });
  const { headers, body } = await gateway.handle(createRequest("GET", "/x"));
  expect(headers["content-type"]).toBe(expected.contentType);
  expect(typeof expected.body === "string" ? body : Buffer.from(body as Buffer).toString("base64")).toBe(
    typeof expected.body === "string" ? expected.body : expected.body.base64,
  );
});

describe("a response_body that is not set", () => {
  const answerOf = (field: string, message: JsonValue) => {
    const method = createMethod(QueryMsgSchema, { pattern: { case: "get", value: "/x" }, responseBody: field });
    const gateway = createGateway({ routes: (router) => router.rpc(method, () => fromJson(QueryMsgSchema, message)) });
    return gateway.handle(createRequest("GET", "/x"));
  };

  test.each([
    "optional_value",
    "optional_int32",
    "nested",
    "wrapper_int64_value",
    "oneof_string_value",
    "oneof_nested",
  ])("is null: %s", async (field) => {
    expect(await answerOf(field, {})).toMatchObject({ status: 200, body: "null" });
  });

  test.each<[field: string, message: JsonValue, body: string]>([
    ["optional_value", { optionalValue: "" }, '""'],
    ["optional_int32", { optionalInt32: 0 }, "0"],
    ["oneof_string_value", { oneofStringValue: "a" }, '"a"'],
    ["oneof_string_value", { oneofBoolValue: true }, "null"],
    ["int32_value", {}, "0"],
  ])("is null only if it is not set: %s of %j", async (field, message, body) => {
    expect(await answerOf(field, message)).toMatchObject({ status: 200, body });
  });

  test("is null in a stream too", async () => {
    const method = {
      ...createMethod(QueryMsgSchema, { pattern: { case: "get", value: "/x" }, responseBody: "optional_value" }),
      methodKind: "server_streaming",
    };
    const gateway = createGateway({
      routes: (router) =>
        router.rpc(
          method as never,
          async function* () {
            yield create(QueryMsgSchema, { optionalValue: "a" });
            yield create(QueryMsgSchema);
          } as never,
        ),
    });
    const { body } = await gateway.handle(createRequest("GET", "/x"));
    expect((await collect(body as AsyncIterable<string>)).join("")).toBe('"a"\nnull\n');
  });
});

const raw = async (implementation: Partial<ServiceImpl<typeof RawService>>): Promise<Streams> =>
  serveStreams("HTTP/1.1", { routes: (router) => router.service(RawService, implementation) });

const bytes = Buffer.from([0, 0xff, 0x0a, 0x22]);

describe("a raw body", () => {
  test.each([
    ["image/png", "image/png"],
    ["application/json; charset=utf-16", "application/json; charset=utf-16"],
    ["application/x-www-form-urlencoded", "application/x-www-form-urlencoded"],
    ["multipart/form-data; boundary=x", "multipart/form-data; boundary=x"],
    [undefined, "application/octet-stream"],
  ])("of any media type is received and sent unchanged: %s", async (contentType, expected) => {
    await using server = await raw({ echo: (request) => request });
    const headers: Record<string, string> = contentType === undefined ? {} : { "content-type": contentType };
    const response = await server.request("POST", "/raw/echo", { headers, body: bytes });
    expect(response).toMatchObject({
      status: 200,
      headers: { "content-type": expected, "content-length": String(bytes.length) },
    });
    expect(Buffer.concat(await collect(response.chunks))).toEqual(bytes);
  });

  test("can be a field, together with path variables", async () => {
    const seen: NamedBody[] = [];
    await using server = await raw({
      put(request) {
        seen.push(request);
        return request;
      },
    });
    const headers = { "content-type": "text/plain" };
    const response = await server.request("PUT", "/raw/named/a", { headers, body: "hello" });
    expect(response.headers["content-type"]).toBe("text/plain");
    expect((await response.read()).body).toBe("hello");
    await server.request("PUT", "/raw/named/b", { headers: { ...headers, "content-length": "0" }, body: "" });
    const none = await server.request("PUT", "/raw/named/c", { headers: { "content-length": "0" } });
    expect([none.headers["content-type"], (await none.read()).body]).toEqual(["application/octet-stream", ""]);
    expect(seen.map(({ name, file }) => [name, file && [file.contentType, Buffer.from(file.data).toString()]])).toEqual(
      [
        ["a", ["text/plain", "hello"]],
        ["b", ["text/plain", ""]],
        ["c", undefined],
      ],
    );
  });

  test("is JSON if it is not the whole body", async () => {
    await using server = await raw({ describe: (request) => request });
    const body = '{"name":"n","file":{"contentType":"text/plain","data":"aGk="}}';
    const response = await server.request("POST", "/raw/describe", {
      headers: { "content-type": "application/json" },
      body,
    });
    expect([response.headers["content-type"], (await response.read()).body]).toEqual(["application/json", body]);
  });

  test("is decompressed, chunked or not, with the general size limit", async () => {
    await using server = await raw({ echo: (request) => request });
    const headers = { "content-encoding": "gzip", "content-type": "text/plain" };
    const response = await server.request("POST", "/raw/echo", { headers, body: gzipSync("hello") });
    expect((await response.read()).body).toBe("hello");
    await using limited = await serveStreams("HTTP/1.1", {
      readMaxBytes: 3,
      routes: (router) => router.service(RawService, { echo: (request) => request }),
    });
    expect((await limited.request("POST", "/raw/echo", { body: ["he", "llo"] })).status).toBe(413);
  });

  test("is not checked against Accept, and an invalid type is not sent", async () => {
    await using server = await raw({ echo: () => ({ contentType: "text/plain\r\nx-evil: 1", data: bytes }) });
    const response = await server.request("POST", "/raw/echo", { headers: { accept: "image/png" }, body: "" });
    expect(response).toMatchObject({ status: 200, headers: { "content-type": "application/octet-stream" } });
    expect(response.headers["x-evil"]).toBeUndefined();
  });
});

const serve = (version: HttpVersion, implementation: Partial<ServiceImpl<typeof StreamsService>>): Promise<Streams> =>
  serveStreams(version, { routes: (router) => router.service(StreamsService, implementation) });

describe.each<[HttpVersion]>([["HTTP/1.1"], ["HTTP/2"]])("a stream of raw bodies over %s", (version) => {
  test("is sent chunk by chunk, with the type of the first", async () => {
    await using server = await serve(version, {
      async *download({ name }) {
        yield { contentType: "text/csv; charset=utf-8", data: Buffer.from(`${name},`) };
        yield { data: new Uint8Array() };
        yield { contentType: "image/png", data: Buffer.from("2") };
      },
    });
    const response = await server.request("GET", "/streams/download/1", { headers: { accept: "text/csv" } });
    expect(response).toMatchObject({ status: 200, headers: { "content-type": "text/csv; charset=utf-8" } });
    expect(response.headers["content-length"]).toBeUndefined();
    expect(await response.read()).toEqual({ body: "1,2", isComplete: true });
  });

  test("that fails is an error response, or is aborted without further bytes", async () => {
    await using server = await serve(version, {
      async *download({ name }) {
        if (name !== "late") {
          throw new ConnectError("gone", Code.NotFound);
        }
        yield create(HttpBodySchema, { data: Buffer.from("part") });
        throw new ConnectError("gone", Code.NotFound);
      },
    });
    const early = await server.request("GET", "/streams/download/early");
    expect([early.status, await early.read()]).toEqual([
      404,
      { body: '{"code":"not_found","message":"gone"}', isComplete: true },
    ]);
    const late = await server.request("GET", "/streams/download/late");
    expect(late).toMatchObject({ status: 200, headers: { "content-type": "application/octet-stream" } });
    expect(await late.read()).toEqual({ body: "part", isComplete: false });
  });

  test("without chunks is empty", async () => {
    await using server = await serve(version, { async *download() {} });
    const response = await server.request("GET", "/streams/download/1");
    expect([response.status, await response.read()]).toEqual([200, { body: "", isComplete: true }]);
  });

  test("is received in chunks of at most 64 KiB, without a total limit", async () => {
    const body = Buffer.alloc(6 * 1024 * 1024, "x");
    await using server = await serve(version, {
      async upload(chunks) {
        let size = 0;
        let type = "";
        for await (const { contentType, data } of chunks) {
          expect(data.length).toBeLessThanOrEqual(64 * 1024);
          size += data.length;
          type = contentType;
        }
        return { bytes: BigInt(size), contentType: type };
      },
    });
    const response = await server.request("POST", "/streams/upload", {
      headers: { "content-type": "image/png" },
      body,
    });
    expect((await response.read()).body).toBe(`{"bytes":"${body.length}","contentType":"image/png"}`);
    const packed = await server.request("POST", "/streams/upload", {
      headers: { "content-encoding": "gzip" },
      body: gzipSync(body),
    });
    expect((await packed.read()).body).toBe(`{"bytes":"${body.length}"}`);
  });

  test("has the fields of path and query in its first message, also for an empty body", async () => {
    await using server = await serve(version, {
      async uploadNamed(chunks) {
        const all = await collect(chunks);
        const data = Buffer.concat(all.map(({ chunk }) => chunk?.data ?? Buffer.alloc(0)));
        const [first] = all;
        return { bytes: BigInt(data.length), name: `${first?.name} ${first?.note}`, contentType: String(data) };
      },
    });
    const response = await server.request("PUT", "/streams/upload/n?note=x", { body: ["a", "b", "c"] });
    expect((await response.read()).body).toBe('{"bytes":"3","contentType":"abc","name":"n x"}');
    const empty = await server.request("PUT", "/streams/upload/n?note=x", { headers: { "content-length": "0" } });
    expect((await empty.read()).body).toBe('{"name":"n x"}');
    const invalid = await server.request("PUT", "/streams/upload/n?nope=x", { body: ["a"] });
    expect(invalid.status).toBe(400);
  });
});
