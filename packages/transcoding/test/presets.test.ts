import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { ThingsService } from "./gen/transcodingtest/v1/things_pb.ts";
import { presets } from "../src/index.ts";
import { StreamsService } from "./gen/transcodingtest/v1/streams_pb.ts";
import { serve } from "./serve.ts";

test.each([
  [
    "grpcGateway",
    "application/json",
    '{"result":{"shelf":"","text":"a","count":0}}\n{"result":{"shelf":"","text":"b","count":0}}\n',
  ],
  ["envoy", "application/json", '[{"text":"a"},{"text":"b"}]'],
  ["vanguard", "application/x-ndjson", '{"shelf":"","text":"a","count":0}\n{"shelf":"","text":"b","count":0}\n'],
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
