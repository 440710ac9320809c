import { describe, expect, test } from "vitest";
import type { GatewayOptions } from "../src/index.ts";
import { StreamsService } from "./gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "./gen/gatewaytest/v1/things_pb.ts";
import { QueryMsgSchema } from "./gen/t/v1/vectors_pb.ts";
import { json, serve } from "./serve.ts";
import { call, createEcho, createRequest } from "./service.ts";

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

describe("jsonOptions.ignoreEnumCase", () => {
  const rule = { pattern: { case: "post", value: "/q/{enum_value}" }, body: "nested" } as const;
  const body = '{"enumValue":"z","repeatedEnum":["X","y"]}';

  test("accepts names of enum values in any case, in paths, queries, bodies, forms and over Connect", async () => {
    const { gateway, seen } = createEcho(QueryMsgSchema, rule, { jsonOptions: { ignoreEnumCase: true } });
    const query = "?repeated_enum=z&repeated_enum=Y";
    expect((await call({ gateway }, createRequest("POST", `/q/y${query}`, body))).status).toBe(200);
    const rpc = createRequest("POST", "/echo.v1.EchoService/Echo", body);
    expect((await call({ gateway }, rpc)).status).toBe(200);
    expect(seen).toMatchObject([
      { enumValue: 1, repeatedEnum: [2, 1], nested: { enumValue: 2, repeatedEnum: [0, 1] } },
      { enumValue: 2, repeatedEnum: [0, 1] },
    ]);
  });

  test("also for names of the option `name`, in headers and forms", async () => {
    await using server = await serve({
      routes: (router) =>
        router.service(ThingsService, { getHeaders: ({ speed }) => ({ speed }), sendForm: ({ speed }) => ({ speed }) }),
      jsonOptions: { ignoreEnumCase: true },
    });
    const inHeader = await server.send("GET", "/things/headers", { headers: { "x-speed": "FAST" } });
    expect([inHeader.status, JSON.parse(inHeader.body)]).toEqual([200, { speed: "fast" }]);
    const form = { headers: { "content-type": "application/x-www-form-urlencoded" }, body: "speed=Slow" };
    const inForm = await server.send("POST", "/things/form", form);
    expect([inForm.status, JSON.parse(inForm.body)]).toEqual([200, { speed: "slow" }]);
    // Not by its name in the .proto.
    expect((await server.send("GET", "/things/headers", { headers: { "x-speed": "SPEED_FAST" } })).status).toBe(400);
  });

  test("is off by default", async () => {
    const { gateway } = createEcho(QueryMsgSchema, rule);
    for (const request of [
      createRequest("POST", "/q/y", "{}"),
      createRequest("POST", "/q/Y?repeated_enum=z", "{}"),
      createRequest("POST", "/q/Y", body),
      createRequest("POST", "/echo.v1.EchoService/Echo", body),
    ]) {
      expect((await call({ gateway }, request)).status).toBe(400);
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
