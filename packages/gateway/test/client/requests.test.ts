import { create, createFileRegistry, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import { anyPack, DurationSchema, FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Code, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import type { HttpRuleSchema } from "../../gen/google/api/http_pb.ts";
import type { MethodRuleSchema } from "../../gen/flowgate/gateway/v1/annotations_pb.ts";
import { createRestTransport, type RestTransportOptions } from "../../src/client/index.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import {
  GetHeadersRequestSchema,
  OpenThingRequestSchema,
  SendFormRequestSchema,
  Speed,
  ThingsService,
} from "../gen/gatewaytest/v1/things_pb.ts";
import { KindsSchema } from "../gen/gatewaytest/v1/invalid_pb.ts";
import {
  BodiesSchema,
  GetMessageRequestSchema,
  QueryMsgSchema,
  UpdateMessageRequestSchema,
} from "../gen/t/v1/vectors_pb.ts";
import { createMethod } from "../service.ts";
import { callStream, callUnary, createCapturing, errorOf, type Captured } from "./captured.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;
type Case<Desc extends DescMessage = DescMessage> = {
  desc: Desc;
  rule: Rule;
  more?: MessageInitShape<typeof MethodRuleSchema>;
  message: MessageInitShape<Desc>;
  headers?: Record<string, string>;
  options?: Partial<RestTransportOptions>;
};

async function request({ desc, rule, more, message, headers, options }: Case): Promise<Captured> {
  const capturing = createCapturing(undefined, options);
  await callUnary(capturing, createMethod(desc, rule, more), message, { ...(headers && { headers }) });
  return capturing.requests[0] as Captured;
}

/** Checks the types of a case. */
const given = <Desc extends DescMessage>(each: Case<Desc>): Case => each;
const get = (value: string) => ({ pattern: { case: "get" as const, value } });
const post = (value: string, body: string) => ({ pattern: { case: "post" as const, value }, body });

const twoPaths: Rule = {
  ...get("/v1/users/{user_id}/messages/{message_id}"),
  additionalBindings: [get("/v1/messages/{message_id}"), get("/v1/revisions/{revision}")],
};
const byName: Rule = {
  ...get("/v1/{string_value=shelves/*/books/*}"),
  additionalBindings: [post("/v1/{string_value=drafts/**}", "*")],
};

test.each<[name: string, given: Case, line: string]>([
  [
    "the primary binding if its variables are set",
    given({ desc: GetMessageRequestSchema, rule: twoPaths, message: { userId: "u", messageId: "m", revision: 2n } }),
    "GET /v1/users/u/messages/m?revision=2",
  ],
  [
    "an additional binding if a variable of the primary one is not set",
    given({ desc: GetMessageRequestSchema, rule: twoPaths, message: { messageId: "m" } }),
    "GET /v1/messages/m",
  ],
  [
    "a binding whose variable has its default value if there is no other",
    given({ desc: GetMessageRequestSchema, rule: twoPaths, message: { tags: ["a b", "c&d"] } }),
    "GET /v1/revisions/0?tags=a%20b&tags=c%26d",
  ],
  [
    "several segments",
    given({ desc: QueryMsgSchema, rule: byName, message: { stringValue: "shelves/a b/books/c+d" } }),
    "GET /v1/shelves/a%20b/books/c%2Bd",
  ],
  [
    "an additional binding if a variable does not match the primary one",
    given({ desc: QueryMsgSchema, rule: byName, message: { stringValue: "drafts/a/b" } }),
    "POST /v1/drafts/a/b",
  ],
  [
    "a slash and a colon in a variable of one segment",
    given({ desc: QueryMsgSchema, rule: get("/v1/{string_value}:go"), message: { stringValue: "a/b:c" } }),
    "GET /v1/a%2Fb%3Ac:go",
  ],
  [
    "nested fields, with JSON names",
    given({
      desc: QueryMsgSchema,
      rule: get("/q"),
      message: { nested: { optionalInt32: 0, nested: { stringValue: "x" } }, customName: "c" },
    }),
    "GET /q?nested.optionalInt32=0&nested.nested.stringValue=x&kebab-name=c",
  ],
  [
    "well-known types, as in JSON",
    given({
      desc: QueryMsgSchema,
      rule: get("/q"),
      message: {
        timestampValue: { seconds: 1n },
        durationValue: { seconds: 1n, nanos: 500_000_000 },
        fieldmaskValue: { paths: ["a_b", "c"] },
        wrapperInt64Value: 0n,
        structValue: { a: [1] },
        bytesValue: Uint8Array.of(251, 255),
      },
    }),
    "GET /q?bytesValue=%2B%2F8%3D&timestampValue=1970-01-01T00%3A00%3A01Z&durationValue=1.500s&fieldmaskValue=aB%2Cc" +
      "&wrapperInt64Value=0&structValue=%7B%22a%22%3A%5B1%5D%7D",
  ],
  [
    "the names of a field mask in the .proto",
    given({
      desc: UpdateMessageRequestSchema,
      rule: { pattern: { case: "patch", value: "/v1/messages/{message.message_id}" }, body: "message" },
      message: { message: { messageId: "m" }, updateMask: { paths: ["message_id"] } },
      options: { query: { fieldMaskNames: "proto" } },
    }),
    "PATCH /v1/messages/m?updateMask=message_id",
  ],
  [
    "maps, if they are allowed",
    given({
      desc: BodiesSchema,
      rule: get("/q"),
      message: { labels: { "a b": "c" } },
      options: { query: { maps: true } },
    }),
    "GET /q?labels%5Ba%20b%5D=c",
  ],
  [
    "a base URL with a path",
    given({ desc: QueryMsgSchema, rule: get("/q"), message: {}, options: { baseUrl: "https://api.example/prefix/" } }),
    "GET /prefix/q",
  ],
  [
    "any HTTP method, without a body",
    given({
      desc: QueryMsgSchema,
      rule: { pattern: { case: "custom", value: { kind: "*", path: "/q" } } },
      message: {},
    }),
    "GET /q",
  ],
  [
    "a custom HTTP method",
    given({
      desc: QueryMsgSchema,
      rule: { pattern: { case: "custom", value: { kind: "LOCK", path: "/q" } } },
      message: {},
    }),
    "LOCK /q",
  ],
  [
    "a rule that is not in the .proto",
    given({
      desc: QueryMsgSchema,
      rule: get("/q"),
      message: {},
      options: {
        rules: [
          { selector: "echo.v1.EchoService.Echo", ...get("/other") },
          { selector: "elsewhere.*", ...get("/elsewhere") },
        ],
      },
    }),
    "GET /other",
  ],
])("%s", async (_name, each, line) => {
  expect((await request(each)).line).toBe(line);
});

test.each<[name: string, given: Case, type: string | undefined, body: string]>([
  [
    "all fields but those of the path",
    given({
      desc: QueryMsgSchema,
      rule: post("/{string_value}/{nested.int32_value}", "*"),
      message: { stringValue: "s", boolValue: true, nested: { int32Value: 1, stringValue: "n" } },
    }),
    "application/json",
    `{"boolValue":true,"nested":{"stringValue":"n"}}`,
  ],
  [
    "one field",
    given({ desc: BodiesSchema, rule: post("/q", "items"), message: { items: [{ text: "a" }] } }),
    "application/json",
    `[{"text":"a"}]`,
  ],
  [
    "a message that is not set",
    given({ desc: UpdateMessageRequestSchema, rule: post("/q", "message"), message: {} }),
    "application/json",
    "{}",
  ],
  [
    "required fields, also if they are empty",
    given({ desc: OpenThingRequestSchema, rule: post("/q", "*"), message: { others: { a: 1 } } }),
    "application/json",
    `{"id":"","a":1}`,
  ],
  [
    "a wrapper that is not set",
    given({ desc: BodiesSchema, rule: post("/q", "wrapped"), message: {} }),
    "application/json",
    "null",
  ],
  ["none", given({ desc: BodiesSchema, rule: post("/q", ""), message: {} }), undefined, ""],
  [
    "raw",
    given({
      desc: BodiesSchema,
      rule: post("/q", "raw"),
      message: { raw: { contentType: "text/csv", data: Buffer.from("a,b") } },
    }),
    "text/csv",
    "a,b",
  ],
  [
    "a form",
    given({
      desc: SendFormRequestSchema,
      rule: post("/q", "*"),
      more: { consumes: ["application/x-www-form-urlencoded"] },
      message: { userName: "a b", admin: true, speed: Speed.FAST },
    }),
    "application/x-www-form-urlencoded",
    "userName=a%20b&admin=true&speed=fast",
  ],
])("a body: %s", async (_name, each, type, body) => {
  const captured = await request(each);
  expect([captured.headers["content-type"], captured.body]).toEqual([type, body]);
});

describe("headers", () => {
  test("have the fields that are bound to them, the entity tag, and the media type of the response", async () => {
    const { headers, line } = await request(
      given({
        desc: KindsSchema,
        rule: post("/q", "inner"),
        more: { ifMatch: "name" },
        message: { tag: "ü t", name: "r1-gzip" },
        headers: { authorization: "Bearer t", accept: "text/plain" },
      }),
    );
    expect(headers).toMatchObject({
      "x-tag": "ü t",
      "if-match": '"r1-gzip-identity"',
      authorization: "Bearer t",
      accept: "application/json",
    });
    expect(line).toBe("POST /q");
  });

  test("have the names of enum values", async () => {
    const { headers } = await request(
      given({ desc: GetHeadersRequestSchema, rule: get("/q"), message: { speed: Speed.SLOW } }),
    );
    expect(headers).toMatchObject({ "x-speed": "slow" });
    expect(headers).not.toHaveProperty("x-count");
  });

  const variants: MessageInitShape<typeof MethodRuleSchema> = {
    variants: {
      header: "API-Version",
      default: "1",
      variants: [
        { value: "1", body: "items" },
        { value: "2", body: "*" },
      ],
    },
  };
  const items = { items: [{ text: "a" }] };

  test.each<[headers: Record<string, string>, version: string, body: string]>([
    [{}, "2", `{"items":[{"text":"a"}]}`],
    [{ "API-Version": "1" }, "1", `[{"text":"a"}]`],
  ])(
    "select the variant with the most fields, or the one that the caller names: %j",
    async (headers, version, body) => {
      const captured = await request(
        given({ desc: BodiesSchema, rule: post("/q", "*"), more: variants, message: items, headers }),
      );
      expect([captured.headers["api-version"], captured.body]).toEqual([version, body]);
    },
  );

  test("can't select an unknown variant", async () => {
    const call = request(
      given({
        desc: BodiesSchema,
        rule: post("/q", "*"),
        more: variants,
        message: items,
        headers: { "API-Version": "3" },
      }),
    );
    const error = await errorOf(call);
    expect([error.code, error.rawMessage]).toEqual([Code.InvalidArgument, "API-Version: must be one of 1, 2"]);
  });

  test.each<
    [option: RestTransportOptions["timeoutHeader"], timeoutMs: number, name: string, value: string | undefined]
  >([
    [undefined, 1500.2, "x-server-timeout", "1.501"],
    ["Grpc-Timeout", 1500, "grpc-timeout", "1500m"],
    ["Grpc-Timeout", 100_000_000, "grpc-timeout", "100000S"],
    ["Connect-Timeout-Ms", 1500, "connect-timeout-ms", "1500"],
    ["none", 1500, "x-server-timeout", undefined],
  ])("have the timeout: %s of %d ms", async (timeoutHeader, timeoutMs, name, value) => {
    const capturing = createCapturing(undefined, {
      ...(timeoutHeader && { timeoutHeader }),
      defaultTimeoutMs: timeoutMs,
    });
    await callUnary(capturing, createMethod(QueryMsgSchema, get("/q")), {});
    expect(capturing.requests[0]?.headers[name]).toBe(value);
    // 0 means none, as in other transports.
    await callUnary(capturing, createMethod(QueryMsgSchema, get("/q")), {}, { timeoutMs: 0 });
    expect(capturing.requests[1]?.headers).not.toHaveProperty(name);
  });
});

test.each<[given: Case, message: string]>([
  [
    given({ desc: GetMessageRequestSchema, rule: get("/v1/messages/{message_id}"), message: {} }),
    `the variable "message_id" of /v1/messages/{message_id} can't be ""`,
  ],
  [
    given({ desc: GetMessageRequestSchema, rule: get("/v1/messages/{sub.subfield}"), message: {} }),
    `the variable "sub.subfield" of /v1/messages/{sub.subfield} has no value`,
  ],
  [
    given({ desc: GetMessageRequestSchema, rule: get("/v1/messages/{message_id}"), message: { messageId: ".." } }),
    `the path can't have the segment "." or ".."`,
  ],
  [
    given({ desc: QueryMsgSchema, rule: get("/v1/{string_value=**}"), message: { stringValue: "a/../b" } }),
    `the path can't have the segment "." or ".."`,
  ],
  [
    given({ desc: QueryMsgSchema, rule: byName, message: { stringValue: "x" } }),
    `the variable "string_value" of /v1/{string_value=shelves/*/books/*} can't be "x"; ` +
      `the variable "string_value" of /v1/{string_value=drafts/**} can't be "x"`,
  ],
  [
    given({ desc: BodiesSchema, rule: get("/q"), message: { labels: { a: "b" } } }),
    "labels: a map can't be sent in a query, and the rule binds it to no other part of the request; some servers accept it, " +
      "with the option query.maps",
  ],
  [
    given({ desc: QueryMsgSchema, rule: get("/q"), message: { nested: { repeatedNested: [{}] } } }),
    "nested.repeated_nested: a list of messages can't be sent in a query, and the rule binds it to no other part of the request",
  ],
  [
    given({
      desc: QueryMsgSchema,
      rule: get("/q"),
      message: { anyValue: anyPack(DurationSchema, create(DurationSchema)) },
    }),
    "any_value: a google.protobuf.Any can't be sent in a query, and the rule binds it to no other part of the request",
  ],
  [
    given({ desc: QueryMsgSchema, rule: get("/q"), message: { stringValue: "\ud800" } }),
    "stringValue: the text has a lone surrogate",
  ],
  [given({ desc: KindsSchema, rule: get("/q"), message: { tag: "世" } }), "X-Tag: a header can't contain this text"],
  [given({ desc: KindsSchema, rule: get("/q"), message: { tag: " a" } }), "X-Tag: a header can't contain this text"],
  [
    given({ desc: KindsSchema, rule: get("/q"), more: { ifMatch: "name" }, message: { name: 'a"' } }),
    "name: an entity tag can't contain this text",
  ],
])("a message that the request can't represent is an error, and nothing is sent: $1", async (each, message) => {
  const capturing = createCapturing(undefined, each.options);
  const error = await errorOf(callUnary(capturing, createMethod(each.desc, each.rule, each.more), each.message));
  expect([error.code, error.rawMessage, capturing.requests]).toEqual([Code.InvalidArgument, message, []]);
});

test("a value that is not one of its type is an internal error", async () => {
  const message = { int32Value: 1.5 };
  const error = await errorOf(request(given({ desc: QueryMsgSchema, rule: post("/q", "*"), message })));
  expect([error.code, error.rawMessage]).toEqual([
    Code.Internal,
    "can't encode the request: RangeError: field t.v1.QueryMsg.int32_value can't hold 1.5",
  ]);
});

test("a method without a rule can't be called", async () => {
  const error = await errorOf(callUnary(createCapturing(), ThingsService.method.notServed, {}));
  expect([error.code, error.rawMessage]).toEqual([
    Code.Unimplemented,
    "rpc gatewaytest.v1.ThingsService.NotServed has no google.api.http rule, so it can't be called over REST",
  ]);
});

test("a method with an invalid rule can't be called", async () => {
  const error = await errorOf(callUnary(createCapturing(), createMethod(QueryMsgSchema, get("/{no_field}")), {}));
  expect([error.code, error.rawMessage]).toEqual([
    Code.Unimplemented,
    `can't serve rpc echo.v1.EchoService.Echo over HTTP: t.v1.QueryMsg has no field "no_field"`,
  ]);
});

test("interceptors see the template, and can change headers and message", async () => {
  const seen: unknown[] = [];
  const interceptor: Interceptor = (next) => async (req) => {
    seen.push([req.requestMethod, req.url, req.method.name, req.stream]);
    req.header.set("x-added", "1");
    if (!req.stream) {
      Object.assign(req.message, { messageId: "changed" });
    }
    const response = await next(req);
    seen.push(response.header.get("x-response"));
    return response;
  };
  const capturing = createCapturing(() => Response.json({}, { headers: { "x-response": "2" } }), {
    interceptors: [interceptor],
  });
  await callUnary(capturing, createMethod(GetMessageRequestSchema, get("/v1/messages/{message_id}")), {
    messageId: "m",
  });
  await callStream(capturing, StreamsService.method.search, [{ shelf: "s" }]);
  expect(capturing.requests.map(({ line, headers }) => [line, headers["x-added"]])).toEqual([
    ["GET /v1/messages/changed", "1"],
    ["POST /streams/search", "1"],
  ]);
  expect(seen).toEqual([
    ["GET", "https://api.example/v1/messages/{message_id}", "Echo", false],
    "2",
    ["POST", "https://api.example/streams/search", "Search", true],
    "2",
  ]);
});

test.each<[options: object, message: string]>([
  [{ baseUrl: "/relative" }, `baseUrl must be an absolute URL without query and fragment, not "/relative"`],
  [
    { baseUrl: "https://api.example?key=1" },
    `baseUrl must be an absolute URL without query and fragment, not "https://api.example?key=1"`,
  ],
  [
    { baseUrl: "https://a.example", timeoutHeader: "Timeout" },
    `timeoutHeader must be one of X-Server-Timeout, Grpc-Timeout, Connect-Timeout-Ms, none, not "Timeout"`,
  ],
  [
    { baseUrl: "https://a.example", query: { fieldMaskNames: "camel" } },
    `query.fieldMaskNames must be "json" or "proto", not "camel"`,
  ],
])("invalid options are rejected: %j", (options, message) => {
  expect(() => createRestTransport(options as RestTransportOptions)).toThrow(new TypeError(message));
});

test.each<[options: object, message: string]>([
  [{ baseURL: "https://api.example" }, "there is no option baseURL; did you mean baseUrl?"],
  [{ baseUrl: "https://api.example", query: { map: true } }, "there is no option query.map; did you mean query.maps?"],
  [{}, "the option baseUrl is missing: it must be a URL"],
])("unknown and missing options are rejected: %j", (options, message) => {
  expect(() => createRestTransport(options as RestTransportOptions)).toThrow(new Error(message));
});

test("a method is compiled once", async () => {
  const method = createMethod(QueryMsgSchema, get("/q"));
  const file = createFileRegistry(create(FileDescriptorProtoSchema), () => undefined);
  let reads = 0;
  const counted = new Proxy(method, {
    get: (target, name, receiver) => {
      reads += name === "proto" ? 1 : 0;
      return Reflect.get(target, name, receiver) as unknown;
    },
  });
  const capturing = createCapturing(undefined, { jsonOptions: { registry: file } });
  await callUnary(capturing, counted, {});
  const atFirst = reads;
  await callUnary(capturing, counted, {});
  expect(atFirst).toBeGreaterThan(0);
  expect(reads).toBe(atFirst);
});
