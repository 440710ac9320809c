import { describe, expect, test } from "vitest";
import type { GatewayOptions } from "../src/index.ts";
import { StreamsService } from "./gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "./gen/gatewaytest/v1/things_pb.ts";
import { json, serve } from "./serve.ts";

const routes: GatewayOptions["routes"] = (router) =>
  router.service(ThingsService, { echoThing: ({ thing }) => ({ ...(thing && { thing }) }) }).service(StreamsService, {
    async *list({ shelf }) {
      yield { text: shelf };
    },
    async sum(items) {
      let count = 0;
      for await (const item of items) {
        count += item.count;
      }
      return { count };
    },
  });

const unknown = { headers: json, body: '{"text":"a","unknown":{"deep":1}}' };
const rpc = { headers: json, body: '{"thing":{"text":"a","unknown":1},"unknown":1}' };
const rpcPath = `/${ThingsService.typeName}/EchoThing`;
const stream = { headers: { "content-type": "application/x-ndjson" }, body: '{"count":1,"unknown":1}\n{"count":2}\n' };

describe("jsonOptions.ignoreUnknownFields", () => {
  test("ignores keys that the message does not declare, over REST, in streams and over Connect", async () => {
    await using server = await serve({ routes, jsonOptions: { ignoreUnknownFields: true } });
    const replies = [
      await server.send("POST", "/things/echo", unknown),
      await server.send("POST", "/streams/sum", stream),
      await server.send("POST", rpcPath, rpc),
    ];
    expect(replies.map(({ status, body }) => [status, JSON.parse(body)])).toEqual([
      [200, { text: "a" }],
      [200, { count: 3 }],
      [200, { thing: { text: "a" } }],
    ]);
  });

  test("is off by default", async () => {
    await using server = await serve({ routes });
    for (const [path, request] of [
      ["/things/echo", unknown],
      ["/streams/sum", stream],
      [rpcPath, rpc],
    ] as const) {
      expect((await server.send("POST", path, request)).status).toBe(400);
    }
  });
});

describe("ignoreTrailingSlash", () => {
  test("serves a path with a slash at its end", async () => {
    await using server = await serve({ routes, ignoreTrailingSlash: true });
    const { status, body } = await server.send("GET", "/streams/s/items/?");
    expect([status, body]).toEqual([200, '{"text":"s"}\n']);
    expect((await server.send("DELETE", "/streams/s/items/")).status).toBe(405);
    expect((await server.send("GET", "/streams/s/items//")).status).toBe(404);
  });

  test("is off by default", async () => {
    await using server = await serve({ routes });
    expect((await server.send("GET", "/streams/s/items/")).status).toBe(404);
  });
});
