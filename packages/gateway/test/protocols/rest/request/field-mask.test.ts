import { toJson, type MessageInitShape } from "@bufbuild/protobuf";
import { FieldMaskSchema } from "@bufbuild/protobuf/wkt";
import { describe, expect, test } from "vitest";
import type { HttpRuleSchema } from "../../../../gen/google/api/http_pb.ts";
import {
  BodiesSchema,
  MessageSchema,
  QueryMsgSchema,
  UpdateMessageRequestSchema,
  type UpdateMessageRequest,
} from "../../../gen/t/v1/vectors_pb.ts";
import { createRequestDecoder, presets, type GatewayOptions } from "../../../../src/index.ts";
import { GetHeadersRequestSchema, OpenThingRequestSchema } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { buildMessage } from "../../../build-message.ts";
import { call, createEcho, createMethod, createRequest } from "../../../service.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;
const patch = (value: string, body: string): Rule => ({ pattern: { case: "patch", value }, body });
const rule = patch("/v1/{message.message_id}", "message");
const on = { fieldMaskFromBody: true };

/** The paths of the mask that the implementation received; undefined for none. */
async function maskOf(
  { target = "/v1/m", body = '{"text":"t"}', rule: given = rule }: { target?: string; body?: string; rule?: Rule },
  options: Omit<GatewayOptions, "routes"> = on,
): Promise<string[] | undefined> {
  const echo = createEcho(UpdateMessageRequestSchema, given, options);
  const httpMethod = given.pattern?.case?.toUpperCase() ?? "";
  expect(await call(echo, createRequest(httpMethod, target, body))).toMatchObject({ status: 200 });
  return (echo.seen[0] as UpdateMessageRequest).updateMask?.paths;
}

describe("the mask of a PATCH", () => {
  test.each<[body: string, paths: string[]]>([
    ['{"text":"t"}', ["text"]],
    ['{"text":""}', ["text"]],
    ['{"text":null}', ["text"]],
    ['{"text":"t","message_id":"other"}', ["message_id", "text"]],
    ["{}", []],
    ["null", []],
    ["", []],
  ])("has the fields of the body: %s", async (body, paths) => {
    expect(await maskOf({ body })).toEqual(paths);
  });

  test.each<[body: object, paths: string[]]>([
    [{ nested: { boolValue: true, nested: { int32Value: 1 } } }, ["nested.bool_value", "nested.nested.int32_value"]],
    [{ nested: {} }, ["nested"]],
    [{ nested: null }, ["nested"]],
    [{ repeatedNested: [{ stringValue: "a" }], repeated_value: [] }, ["repeated_nested", "repeated_value"]],
    [{ mapValue: { a: "b" } }, ["map_value"]],
    [
      { structValue: { a: { b: 1 } }, structValueValue: { a: 1 }, listValue: [{}] },
      ["list_value", "struct_value", "struct_value_value"],
    ],
    [{ anyValue: { "@type": "type.googleapis.com/google.protobuf.Duration", value: "1s" } }, ["any_value"]],
    [{ timestampValue: "2020-01-01T00:00:00Z", wrapperInt64Value: "1" }, ["timestamp_value", "wrapper_int64_value"]],
    [{ oneofNested: { stringValue: "a" } }, ["oneof_nested.string_value"]],
    [{ "kebab-name": "a" }, ["custom_name"]],
    [{ custom_name: "a" }, ["custom_name"]],
    [{ int64Value: 2 ** 60 }, ["int64_value"]],
  ])("has proto names at every level, and ends at lists, maps and well-known types: %j", async (body, paths) => {
    const echo = createEcho(QueryMsgSchema, patch("/q", "nested"), on);
    const response = await call(echo, createRequest("PATCH", "/q", JSON.stringify(body)));
    expect(response.status).toBe(200);
    expect(echo.seen).toMatchObject([{ fieldmaskValue: { paths } }]);
  });

  test.each([
    ["update_mask=message_id,text", ["message_id", "text"]],
    ["updateMask=messageId", ["message_id"]],
    ["update_mask=*", ["*"]],
    // An empty one names no field.
    ["update_mask=", ["text"]],
  ])("is that of the client if it sends one: %s", async (query, paths) => {
    expect(await maskOf({ target: `/v1/m?${query}` })).toEqual(paths);
  });

  test("leaves out keys that are ignored", async () => {
    const echo = createEcho(QueryMsgSchema, patch("/q", "nested"), on, { ignoreUnknown: true });
    const body = '{"stringValue":"a","unknown":1,"nested":{"unknown":1,"boolValue":true}}';
    expect((await call(echo, createRequest("PATCH", "/q", body))).status).toBe(200);
    expect(echo.seen).toMatchObject([{ fieldmaskValue: { paths: ["nested.bool_value", "string_value"] } }]);
  });

  test("leaves out fields of headers, which the body can't set", async () => {
    const request = buildMessage({ headers: GetHeadersRequestSchema, update_mask: FieldMaskSchema });
    const echo = createEcho(request, patch("/h", "headers"), on, { ignoreUnknown: true });
    expect((await call(echo, createRequest("PATCH", "/h", '{"count":5}'))).status).toBe(200);
    expect(echo.seen).toMatchObject([{ updateMask: { paths: [] } }]);
  });

  test("has the inline field for keys that the message does not declare", async () => {
    const request = buildMessage({ thing: OpenThingRequestSchema, update_mask: FieldMaskSchema });
    const echo = createEcho(request, patch("/t", "thing"), on);
    expect(await call(echo, createRequest("PATCH", "/t", '{"id":"i","b":1,"a":{"b":2}}'))).toEqual({
      status: 200,
      body: { thing: { id: "i", b: 1, a: { b: 2 } }, updateMask: "id,others" },
    });
    // A lenient field of another type is kept there.
    expect(await call(echo, createRequest("PATCH", "/t", '{"id":"i","note":5}'))).toEqual({
      status: 200,
      body: { thing: { id: "i", note: 5 }, updateMask: "id,others" },
    });
  });

  test("is not filled if the message has another one", async () => {
    const two = buildMessage({ message: MessageSchema, update_mask: FieldMaskSchema, read_mask: FieldMaskSchema });
    expect(
      await call(createEcho(two, patch("/m", "message"), on), createRequest("PATCH", "/m", '{"text":"t"}')),
    ).toEqual({ status: 200, body: { message: { text: "t" } } });
  });

  test("is filled for a request that is decoded elsewhere", async () => {
    const decode = createRequestDecoder(createMethod(UpdateMessageRequestSchema, rule), on);
    const format = {
      kind: "http",
      route: "PATCH /v1/{message.message_id}",
      httpMethod: "PATCH",
      target: "/v1/m",
      headers: { "content-type": "application/json" },
      pathVariables: ["m"],
    } as const;
    expect(await decode(Buffer.from('{"text":"t"}'), format)).toMatchObject({ updateMask: { paths: ["text"] } });
  });

  test("is not filled from an invalid body", async () => {
    const echo = createEcho(UpdateMessageRequestSchema, rule, on);
    expect(await call(echo, createRequest("PATCH", "/v1/m", '{"text":1}'))).toMatchObject({ status: 400 });
    expect(echo.seen).toEqual([]);
  });
});

test.each<[name: string, rule: Rule]>([
  ["another HTTP method", { pattern: { case: "put", value: "/v1/{message.message_id}" }, body: "message" }],
  ["the whole message as body", patch("/v1/{message_id}", "*")],
])("the mask is left to the client with %s", async (_name, given) => {
  const body = given.body === "*" ? '{"message":{"text":"t"}}' : '{"text":"t"}';
  expect(await maskOf({ rule: given, body })).toBeUndefined();
});

test("a request message without a mask, or with a body that is no message, is as before", async () => {
  for (const [body, json] of [
    ["items", '[{"text":"a"}]'],
    ["attrs", '{"a":1}'],
  ] as const) {
    const echo = createEcho(BodiesSchema, patch("/b", body), on);
    const response = await call(echo, createRequest("PATCH", "/b", json));
    expect([response.status, ...echo.seen.map((each) => toJson(BodiesSchema, each as never))]).toEqual([
      200,
      { [body]: JSON.parse(json) as unknown },
    ]);
  }
});

test("the option is off by default, and on in the presets of grpc-gateway and Google", async () => {
  expect(await maskOf({}, {})).toBeUndefined();
  expect(await maskOf({}, presets.envoy)).toBeUndefined();
  expect(await maskOf({}, presets.grpcGateway)).toEqual(["text"]);
  expect(await maskOf({}, presets.google)).toEqual(["text"]);
});
