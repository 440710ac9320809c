import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "../gen/google/rpc/error_details_pb.ts";
import { createGateway, presets } from "../src/index.ts";
import { GetMessageRequestSchema } from "./gen/t/v1/vectors_pb.ts";
import { StreamsService } from "./gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "./gen/gatewaytest/v1/things_pb.ts";
import { readBroken } from "./read-broken.ts";
import { serve } from "./serve.ts";
import { call, createEcho, createRequest } from "./service.ts";

test.each([
  [
    "grpcGateway",
    "application/json",
    '{"result":{"shelf":"","text":"a","count":0}}\n{"result":{"shelf":"","text":"b","count":0}}\n',
  ],
  ["envoy", "application/json", '[{"text":"a"},{"text":"b"}]'],
  ["vanguard", "application/x-ndjson", '{"shelf":"","text":"a","count":0}\n{"shelf":"","text":"b","count":0}\n'],
  ["google", "application/json", '[{"text":"a"},{"text":"b"}]'],
] as const)("%s: a stream is %s", async (name, contentType, body) => {
  await using server = await serve({
    ...presets[name],
    routes: (router) =>
      void router.rpc(StreamsService.method.search, async function* () {
        yield { text: "a" };
        yield { text: "b" };
      }),
  });
  const reply = await server.send("POST", "/streams/search", {
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  expect([reply.status, reply.headers["content-type"], reply.body.replaceAll(/\s*([[\],])\s*/g, "$1")]).toEqual([
    200,
    contentType,
    body,
  ]);
});

test.each([
  ["grpcGateway", 200],
  ["envoy", 400],
  ["vanguard", 400],
] as const)("%s: an unknown query parameter is %i, and errors are google.rpc.Status", async (name, status) => {
  await using server = await serve({
    ...presets[name],
    routes: (router) =>
      void router
        .rpc(ThingsService.method.getHeaders, () => ({}))
        .rpc(ThingsService.method.openThing, () => {
          throw new ConnectError("gone", Code.NotFound);
        }),
  });
  expect((await server.send("GET", "/things/headers?unknown=1")).status).toBe(status);
  const failed = await server.send("PUT", "/things/open", {
    headers: { "content-type": "application/json" },
    body: '{"id":"x"}',
  });
  expect([failed.status, JSON.parse(failed.body)]).toEqual([404, { code: 5, message: "gone", details: [] }]);
  expect(JSON.parse((await server.send("GET", "/nowhere")).body)).toEqual({
    code: 5,
    message: "no operation has this path",
    details: [],
  });
});

describe("google", () => {
  const gateway = createGateway({
    ...presets.google,
    routes: (router) =>
      void router
        .rpc(ThingsService.method.echoThing, ({ thing = {} }) => ({ thing }))
        .rpc(ThingsService.method.getHeaders, () => {
          throw new ConnectError("gone", Code.NotFound, undefined, [
            { desc: ErrorInfoSchema, value: { reason: "GONE", domain: "things.example" } },
          ]);
        })
        .rpc(StreamsService.method.search, async function* () {
          yield { text: "a" };
          throw new ConnectError("stopped", Code.Canceled);
        }),
  });

  test("errors are those of AIP-193", async () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "GONE", domain: "things.example" }];
    expect(await call({ gateway }, createRequest("GET", "/things/headers?key=k"))).toEqual({
      status: 404,
      body: { error: { code: 404, message: "gone", status: "NOT_FOUND", details } },
    });
    expect(await call({ gateway }, createRequest("GET", "/nowhere"))).toEqual({
      status: 404,
      body: { error: { code: 404, message: "no operation has this path", status: "NOT_FOUND" } },
    });
  });

  const failure = '{"code":499,"message":"stopped","status":"CANCELLED"}';
  test("a stream that fails ends with its error", async () => {
    const { body } = await gateway.handle(createRequest("POST", "/streams/search", "{}"));
    expect(await readBroken(body as AsyncIterable<string>)).toBe(`[{"text":"a"},{"error":${failure}}`);
  });

  test("ignores system parameters", async () => {
    const query = "$alt=json;enum-encoding=int&$prettyPrint=false&key=k";
    expect(await call({ gateway }, createRequest("POST", `/things/echo?${query}`, '{"colour":1}'))).toEqual({
      status: 200,
      body: { colour: "COLOUR_RED" },
    });
  });

  test("takes templates of Google's", async () => {
    const rule = { pattern: { case: "get", value: "/v1/{message_id=documents/**}/{user_id}" } } as const;
    const echo = createEcho(GetMessageRequestSchema, rule, presets.google);
    expect(await call(echo, createRequest("GET", "/v1/documents/a/b/c"))).toEqual({
      status: 200,
      body: { messageId: "documents/a/b", userId: "c" },
    });
  });
});
