import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import type { HttpRuleSchema } from "../../../../gen/google/api/http_pb.ts";
import { createGateway, type GatewayOptions } from "../../../../src/index.ts";
import { BodiesSchema, EnumValue, GetMessageRequestSchema, QueryMsgSchema } from "../../../gen/t/v1/vectors_pb.ts";
import { RawService, StreamsService } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { buildMessage } from "../../../build-message.ts";
import { json, serve } from "../../../serve.ts";
import { call, createEcho, createMethod, createRequest, createServerStream } from "../../../service.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;
const get = (value: string): Rule => ({ pattern: { case: "get", value } });
const on = { systemParameters: true };

const echo = (options: Omit<GatewayOptions, "routes"> = on, message: DescMessage = QueryMsgSchema) =>
  createEcho(message, get("/q"), options);

describe("a system parameter", () => {
  test.each([
    "%24alt=json",
    "$alt=json",
    "alt=json",
    "%24.xgafv=2",
    "$prettyPrint=false",
    "prettyPrint=true",
    "key=AIza",
    "$key=AIza",
    "$fields=string_value",
    "fields=stringValue",
    "$userProject=p",
    "quotaUser=u",
    "access_token=t",
    "oauth_token=t",
    "uploadType=media",
    "upload_protocol=raw",
    "callback=f",
    "$callback=f",
    "$ct=application/json",
    "$apiVersion=v1",
    "key=a&key=b",
  ])("is accepted: %s", async (query) => {
    const request = createRequest("GET", `/q?${query}&string_value=a`);
    expect(await call(echo(), request)).toEqual({ status: 200, body: { stringValue: "a" } });
    expect(await call(echo({}), request)).toMatchObject({ status: 400 });
  });

  test.each(["$unknown=1", "xgafv=2", "$altt=json", "unknown=1"])("is no other name: %s", async (query) => {
    expect(await call(echo(), createRequest("GET", `/q?${query}`))).toMatchObject({ status: 400 });
  });

  test("is accepted beside a body that is the whole message", async () => {
    const bodies = createEcho(BodiesSchema, { pattern: { case: "post", value: "/b" }, body: "*" }, on);
    expect(await call(bodies, createRequest("POST", "/b?key=k&$alt=json", '{"id":"i"}'))).toEqual({
      status: 200,
      body: { id: "i" },
    });
    expect(await call(bodies, createRequest("POST", "/b?name=n", '{"id":"i"}'))).toMatchObject({ status: 400 });
  });

  test("without $ is a field of the request if that has one of this name", async () => {
    const keyed = buildMessage({ key: "string", alt: "string" });
    const byQuery = createEcho(keyed, get("/k"), on);
    expect(await call(byQuery, createRequest("GET", "/k?key=k&alt=a&$key=other"))).toEqual({
      status: 200,
      body: { key: "k", alt: "a" },
    });
    const inPath = createEcho(keyed, get("/k/{key}"), on);
    expect(await call(inPath, createRequest("GET", "/k/p?key=k"))).toEqual({ status: 200, body: { key: "p" } });
    const inBody = createEcho(keyed, { pattern: { case: "post", value: "/k" }, body: "*" }, on);
    expect(await call(inBody, createRequest("POST", "/k?key=k&alt=json", '{"key":"b"}'))).toEqual({
      status: 200,
      body: { key: "b" },
    });
  });
});

describe("alt", () => {
  const respond = async (query: string, options: Omit<GatewayOptions, "routes"> = on): Promise<unknown> => {
    const message = create(QueryMsgSchema, {
      enumValue: EnumValue.Z,
      repeatedEnum: [EnumValue.Y],
      nested: { enumValue: EnumValue.Y },
    });
    const gateway = createGateway({
      ...options,
      routes: (router) => router.rpc(createMethod(QueryMsgSchema, get("/q")), () => message),
    });
    return (await call({ gateway }, createRequest("GET", `/q${query}`))).body;
  };
  const named = { enumValue: "Z", repeatedEnum: ["Y"], nested: { enumValue: "Y" } };
  const numbered = { enumValue: 2, repeatedEnum: [1], nested: { enumValue: 1 } };

  test.each<[query: string, body: object]>([
    ["", named],
    ["?$alt=json", named],
    ["?%24alt=json%3Benum-encoding%3Dint", numbered],
    ["?$alt=json;enum-encoding=int", numbered],
    ["?key=k&alt=json;enum-encoding=int", numbered],
    ["?%61lt=json;enum-encoding=int", numbered],
  ])("decides how enum values are written: %s", async (query, body) => {
    expect(await respond(query)).toEqual(body);
  });

  test("adds to the JSON options of the gateway", async () => {
    const options = { ...on, jsonOptions: { useProtoFieldName: true } };
    expect(await respond("?$alt=json;enum-encoding=int", options)).toEqual({
      enum_value: 2,
      repeated_enum: [1],
      nested: { enum_value: 1 },
    });
    expect(await respond("", { ...on, jsonOptions: { enumAsInteger: true } })).toEqual(numbered);
  });

  test("is accepted, and checked, for a client stream", async () => {
    await using server = await serve({
      ...on,
      routes: (router) =>
        void router.rpc(StreamsService.method.sum, async (requests) => {
          let count = 0;
          for await (const item of requests) {
            count += item.count;
          }
          return { count };
        }),
    });
    const options = { headers: json, body: '[{"count":1},{"count":2}]' };
    const reply = await server.send("POST", "/streams/sum?$alt=json;enum-encoding=int", options);
    expect([reply.status, reply.body]).toEqual([200, '{"count":3}']);
    expect((await server.send("POST", "/streams/sum?$alt=proto", options)).status).toBe(400);
  });

  test.each(["proto", "sse", "media", "", "json;enum-encoding=string", "JSON"])(
    "of another format is rejected before the call: %s",
    async (alt) => {
      const { gateway, seen } = echo();
      expect(await call({ gateway }, createRequest("GET", `/q?$alt=${alt}`))).toEqual({
        status: 400,
        body: { code: "invalid_argument", message: "alt: must be json, and can be followed by ;enum-encoding=int" },
      });
      expect(seen).toEqual([]);
    },
  );

  test("can be given twice, with one value", async () => {
    expect(await respond("?alt=json;enum-encoding=int&$alt=json;enum-encoding=int", on)).toEqual(numbered);
    const { gateway } = echo();
    expect(await call({ gateway }, createRequest("GET", "/q?$alt=json&alt=json;enum-encoding=int"))).toEqual({
      status: 400,
      body: { code: "invalid_argument", message: "alt: set more than once, with different values" },
    });
  });

  test("can be ignored", async () => {
    expect(await respond("?alt=proto", { ...on, ignoredQuery: ["alt"] })).toEqual(named);
  });

  test("media is that of a raw body", async () => {
    await using server = await serve({ ...on, routes: (router) => router.rpc(RawService.method.echo, (body) => body) });
    const options = { headers: { "content-type": "text/csv" }, body: "a,b" };
    for (const query of ["", "?alt=media", "?$alt=json"]) {
      const reply = await server.send("POST", `/raw/echo${query}`, options);
      expect([reply.status, reply.headers["content-type"], reply.body]).toEqual([200, "text/csv", "a,b"]);
    }
    expect((await server.send("POST", "/raw/echo?alt=sse", options)).status).toBe(400);
  });

  test.each([
    ["", "application/json", '[{"text":"a"},{"text":"b"}]'],
    ["?$alt=json;enum-encoding=int", "application/json", '[{"text":"a"},{"text":"b"}]'],
    ["?alt=sse", "text/event-stream", 'data: {"text":"a"}\n\ndata: {"text":"b"}\n\n'],
    ["?$alt=sse;enum-encoding=int", "text/event-stream", 'data: {"text":"a"}\n\ndata: {"text":"b"}\n\n'],
  ])("sse selects the format of a stream: %s", async (query, contentType, body) => {
    await using server = await serve({
      ...on,
      streams: { preferred: "json" },
      routes: (router) =>
        void router.rpc(StreamsService.method.list, async function* () {
          yield { text: "a" };
          yield { text: "b" };
        }),
    });
    const reply = await server.send("GET", `/streams/s/items${query}`);
    expect([reply.status, reply.headers["content-type"], reply.body]).toEqual([200, contentType, body]);
  });

  test("decides how enum values in a stream are written", async () => {
    await using server = await serve({
      ...on,
      routes: (router) =>
        void router.rpc(createServerStream(QueryMsgSchema, get("/q")), async function* () {
          yield create(QueryMsgSchema, { enumValue: EnumValue.Z });
        }),
    });
    expect((await server.send("GET", "/q")).body).toBe('{"enumValue":"Z"}\n');
    expect((await server.send("GET", "/q?$alt=json;enum-encoding=int")).body).toBe('{"enumValue":2}\n');
  });
});

describe("a parameter in ignoredQuery", () => {
  const ignoring = { ignoredQuery: ["key", "a.b", "string_value"] };

  test.each([
    ["key=k", 200, {}],
    ["%6bey=k&key=l", 200, {}],
    ["a.b=1", 200, {}],
    ["a=1", 400, undefined],
    ["Key=1", 400, undefined],
    ["keys=1", 400, undefined],
    ["key=k&bool_value=true", 200, { boolValue: true }],
    // As with Envoy, which compares names without a look at the fields.
    ["string_value=a", 200, {}],
    ["stringValue=a", 200, { stringValue: "a" }],
    ["nested.string_value=a", 200, { nested: { stringValue: "a" } }],
  ])("is ignored: %s", async (query, status, body) => {
    const response = await call(echo(ignoring), createRequest("GET", `/q?${query}`));
    expect([response.status, ...(status === 200 ? [response.body] : [])]).toEqual(status === 200 ? [200, body] : [400]);
  });

  test("is ignored beside a body and a path that bind the field, but not in a form", async () => {
    const form = "application/x-www-form-urlencoded";
    const rule: Rule = { pattern: { case: "post", value: "/m/{message_id}" }, body: "*" };
    const bound = createEcho(
      GetMessageRequestSchema,
      rule,
      { ignoredQuery: ["message_id", "user_id"] },
      { consumes: [form] },
    );
    const send = (query: string, body: string) => call(bound, createRequest("POST", `/m/1${query}`, body, form));
    expect(await send("?message_id=2&user_id=3", "revision=4")).toEqual({
      status: 200,
      body: { messageId: "1", revision: "4" },
    });
    expect(await send("", "user_id=3")).toEqual({ status: 200, body: { messageId: "1", userId: "3" } });
  });
});
