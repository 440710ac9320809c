import { runInNewContext } from "node:vm";
import { fromJson, toJson, type DescMessage, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { HttpRuleSchema } from "../../../../gen/google/api/http_pb.ts";
import { FlowsService, UpdateFlowRequestSchema } from "../../../../../../gen/flowgate/v1/flows_pb.ts";
import * as schemas from "../../../gen/t/v1/vectors_pb.ts";
import { createGateway, type GatewayOptions } from "../../../../src/index.ts";
import { call, createEcho, createRequest } from "../../../service.ts";
import { vectors } from "../../../vectors.ts";

const { GetMessageRequestSchema, GetUserRequestSchema, MessageSchema, QueryMsgSchema, UpdateMessageRequestSchema } =
  schemas;

const form = "application/x-www-form-urlencoded";

type BindingVector = {
  schema: string;
  rule: JsonValue;
  request: { method: string; path: string; body?: string; contentType?: string };
  options?: Pick<GatewayOptions, "unknownQuery" | "boundQuery">;
  expect: { ok: boolean; message?: object };
};

test.each(vectors<BindingVector>("binding"))(
  "%s",
  async (_id, { schema, rule, request, options, expect: expected }) => {
    const message = Object.values(schemas).find(
      (each) => "kind" in each && each.kind === "message" && each.typeName === schema,
    ) as DescMessage;
    const { method, path, body, contentType } = request;
    const type = contentType ?? "application/json";
    const rules = fromJson(HttpRuleSchema, rule);
    // Forms must be enabled by the method.
    const echo = createEcho(message, rules, options, type === form ? { consumes: [form] } : {});
    const response = await call(echo, createRequest(method, path, body, type));
    expect([response.status, ...echo.seen.map((each) => toJson(message, each))]).toEqual(
      expected.ok ? [200, expected.message] : [400],
    );
  },
);

type Rule = MessageInitShape<typeof HttpRuleSchema>;
const get = (value: string): Rule => ({ pattern: { case: "get", value } });
const post = (value: string, body: string): Rule => ({ pattern: { case: "post", value }, body });

describe("a path", () => {
  const bind = (field: string, value: string, message: DescMessage = QueryMsgSchema) =>
    call(createEcho(message, get(`/p/{${field}}`)), createRequest("GET", `/p/${value}`));

  test.each<[variable: string, value: string, message: object]>([
    ["string_value", "a+b%20c%2F%252F%25", { stringValue: "a+b c/%2F%" }],
    ["string_value", "%E4%B8%96%F0%9F%98%80", { stringValue: "世😀" }],
    ["string_value", "\u00c3\u00bc", { stringValue: "ü" }],
    ["string_value=**", "", {}],
    ["optional_value=**", "", { optionalValue: "" }],
    ["string_value=**", "a%2Fb/c%20d/%2f", { stringValue: "a%2Fb/c d/%2f" }],
    ["string_value=foo/*", "foo/a%2Fb%25", { stringValue: "foo/a%2Fb%" }],
    ["int64_value", "-9223372036854775808", { int64Value: "-9223372036854775808" }],
    ["fixed64_value", "18446744073709551615", { fixed64Value: "18446744073709551615" }],
    ["bool_value", "true", { boolValue: true }],
    ["double_value", "1e-7", { doubleValue: 1e-7 }],
    ["enum_value", "Z", { enumValue: "Z" }],
    ["enum_value", "2", { enumValue: "Z" }],
    ["bytes_value", "-_8", { bytesValue: "+/8=" }],
    ["optional_int32", "0", { optionalInt32: 0 }],
    ["timestamp_value", "2021-01-01T00:00:00+02:00", { timestampValue: "2020-12-31T22:00:00Z" }],
    ["duration_value", "1.5s", { durationValue: "1.500s" }],
    ["fieldmask_value", "a_b,cD", { fieldmaskValue: "aB,cD" }],
    ["wrapper_int64_value", "0", { wrapperInt64Value: "0" }],
    ["wrapper_string_value=**", "", { wrapperStringValue: "" }],
    ["nested.nested.int32_value", "7", { nested: { nested: { int32Value: 7 } } }],
    ["oneof_string_value", "a", { oneofStringValue: "a" }],
    ["oneof_nested.optional_value", "a", { oneofNested: { optionalValue: "a" } }],
  ])("%s of %s", async (variable, value, message) => {
    expect(await bind(variable, value)).toEqual({ status: 200, body: message });
  });

  test.each<[variable: string, value: string, message: string]>([
    ["int32_value", "010", "int32_value: must be a 32-bit integer"],
    ["int32_value", "%201", "int32_value: must be a 32-bit integer"],
    ["int32_value=**", "", "int32_value: must be a 32-bit integer"],
    ["nested.uint64_value", "-1", "nested.uint64_value: must be a 64-bit integer, 0 or more"],
    ["bool_value", "1", "bool_value: must be true or false"],
    ["enum_value", "W", "enum_value: must be one of X, Y, Z"],
    ["timestamp_value", "null", "timestamp_value: must be a time as in RFC 3339, such as 2024-02-29T12:00:00Z"],
    ["string_value", "%zz", "string_value: the path is not valid percent-encoded UTF-8"],
    ["string_value=**", "a/%C3", "string_value: the path is not valid percent-encoded UTF-8"],
  ])("%s of %s is a request error", async (variable, value, message) => {
    const response = await bind(variable, value);
    expect(response.status).toBe(400);
    expect(response.body).toEqual({ code: "invalid_argument", message });
  });
});

describe("a bound field", () => {
  const users = get("/v1/{resource_id}/users/{user_id}");
  const names = ["resource_id=2", "resourceId=2", "user_id=2", "userId=2", "email=2", "resource_id=1"];

  test.each(names)("is never set by the query: %s", async (query) => {
    for (const boundQuery of ["reject", "ignore"] as const) {
      const echo = createEcho(GetUserRequestSchema, users, { boundQuery });
      const response = await call(echo, createRequest("GET", `/v1/1/users/u?${query}`));
      const field = /email|user/.test(query) ? (query.startsWith("email") ? "email" : "user_id") : "resource_id";
      expect(response).toEqual(
        boundQuery === "ignore"
          ? { status: 200, body: { resourceId: "1", userId: "u" } }
          : {
              status: 400,
              body: { code: "invalid_argument", message: `${field}: set by the path, so it can't be a parameter` },
            },
      );
    }
  });

  test.each(["custom_name=2", "kebab-name=2"])("is never set by its json_name in the query: %s", async (query) => {
    const echo = createEcho(QueryMsgSchema, get("/v1/{custom_name}"), { boundQuery: "ignore" });
    expect(await call(echo, createRequest("GET", `/v1/1?${query}`))).toEqual({
      status: 200,
      body: { "kebab-name": "1" },
    });
  });

  test.each([
    ["nested.string_value=x", { nested: { stringValue: "p" } }],
    ["nested.oneof_bool_value=true", { nested: { stringValue: "p", oneofBoolValue: true } }],
    ["nested.nested.string_value=x", { nested: { stringValue: "p", nested: { stringValue: "x" } } }],
    ["string_value=x", { stringValue: "x", nested: { stringValue: "p" } }],
  ])("leaves sibling fields to the query: %s", async (query, message) => {
    const echo = createEcho(QueryMsgSchema, get("/v1/{nested.string_value}"), { boundQuery: "ignore" });
    expect(await call(echo, createRequest("GET", `/v1/p?${query}`))).toEqual({ status: 200, body: message });
  });

  test.each(["oneof_string_value=x", "oneof_bool_value=true", "oneofNested.string_value=x"])(
    "of a oneof prevents the query from setting other members: %s",
    async (query) => {
      const echo = createEcho(QueryMsgSchema, get("/v1/{oneof_nested.string_value}"), { boundQuery: "ignore" });
      expect(await call(echo, createRequest("GET", `/v1/p?${query}`))).toEqual({
        status: 200,
        body: { oneofNested: { stringValue: "p" } },
      });
    },
  );

  test("keeps the value of the path over that of the body", async () => {
    const echo = createEcho(UpdateMessageRequestSchema, post("/v1/{message.message_id}", "message"));
    for (const body of ['{"messageId":"2","text":"t"}', '{"message_id":"2","text":"t"}', '{"text":"t"}']) {
      expect(await call(echo, createRequest("POST", "/v1/1", body))).toEqual({
        status: 200,
        body: { message: { messageId: "1", text: "t" } },
      });
    }
    expect(await call(echo, createRequest("POST", "/v1/1", "null"))).toEqual({
      status: 200,
      body: { message: { messageId: "1" } },
    });
  });

  test("conflicts with another member of its oneof in the body", async () => {
    const echo = createEcho(GetUserRequestSchema, post("/v1/{user_id}", "*"));
    expect(await call(echo, createRequest("POST", "/v1/1", '{"email":"e"}'))).toEqual({
      status: 400,
      body: { code: "invalid_argument", message: "email: the path sets user_id of the same oneof" },
    });
    expect(echo.seen).toEqual([]);
  });

  test("excludes all query parameters if the body is the whole message", async () => {
    for (const [boundQuery, unknownQuery, query, status] of [
      ["reject", "reject", "text=x", 400],
      ["ignore", "reject", "text=x", 200],
      ["ignore", "reject", "other=x", 400],
      ["reject", "ignore", "other=x", 200],
      ["reject", "ignore", "text=x", 400],
    ] as const) {
      const echo = createEcho(MessageSchema, post("/v1", "*"), { boundQuery, unknownQuery });
      const response = await call(echo, createRequest("POST", `/v1?${query}`, '{"text":"b"}'));
      expect([response.status, echo.seen.length]).toEqual([status, status === 200 ? 1 : 0]);
      expect(response.body).toMatchObject(status === 200 ? { text: "b" } : { code: "invalid_argument" });
    }
  });

  test("is rejected or ignored in a form as in a query", async () => {
    const rule = post("/v1/{message_id}", "*");
    const request = createRequest("POST", "/v1/1", "text=a+b&messageId=2", form);
    const ignore = createEcho(MessageSchema, rule, { boundQuery: "ignore" }, { consumes: [form] });
    expect(await call(ignore, request)).toEqual({ status: 200, body: { messageId: "1", text: "a b" } });
    const reject = createEcho(MessageSchema, rule, {}, { consumes: [form] });
    expect(await call(reject, request)).toEqual({
      status: 400,
      body: { code: "invalid_argument", message: "message_id: set by the path, so it can't be a parameter" },
    });
  });
});

test("a field with no_query is an unknown parameter", async () => {
  for (const query of ["rev=1", "credentials.encrypted=x", "credentials.%24=x"]) {
    const seen: unknown[] = [];
    const gateway = createGateway({
      routes: (router) =>
        router.rpc(FlowsService.method.setFlows, (request) => {
          seen.push(request);
          return {};
        }),
    });
    const response = await call({ gateway }, createRequest("POST", `/flows?${query}`, "[]"));
    expect(response).toMatchObject({
      status: 400,
      body: {
        code: "invalid_argument",
        reason: "invalid_flows",
        message: expect.stringMatching(/: unknown parameter; /),
      },
    });
    expect(seen).toEqual([]);
  }
});

test("an invalid query is rejected before the implementation runs, also with a valid body", async () => {
  const echo = createEcho(GetMessageRequestSchema, post("/v1/{message_id}", "sub"));
  for (const [target, body] of [
    ["/v1/1?revision=x", "{}"],
    ["/v1/1?revision=1", '{"subfield":1}'],
    ["/v1/1?sub.subfield=x", "{}"],
    ["/v1/1?subfield=x", "{}"],
  ] as const) {
    expect(await call(echo, createRequest("POST", target, body))).toMatchObject({ status: 400 });
  }
  expect(echo.seen).toEqual([]);
  expect(await call(echo, createRequest("POST", "/v1/1?revision=2&tags=a&tags=b", '{"subfield":"s"}'))).toEqual({
    status: 200,
    body: { messageId: "1", revision: "2", sub: { subfield: "s" }, tags: ["a", "b"] },
  });
});

test("a body for a rule without a body is rejected", async () => {
  const echo = createEcho(MessageSchema, get("/v1/{message_id}"));
  expect(await call(echo, createRequest("GET", "/v1/1", "{}"))).toEqual({
    status: 400,
    body: { code: "invalid_argument", message: "this operation takes no body" },
  });
});

describe("null as the body of a field", () => {
  const bodies = ["name", "count", "nums", "items", "labels", "kind", "wrapped", "attrs"];
  test.each(bodies)("represents an unset field: %s", async (field) => {
    const echo = createEcho(schemas.BodiesSchema, post("/v1/{id}", field));
    expect(await call(echo, createRequest("POST", "/v1/1", "null"))).toEqual({ status: 200, body: { id: "1" } });
  });

  test.each(["optional_int32", "optional_value", "map_value15", "oneof_bool_value", "custom_name"])(
    "unsets fields of every kind: %s",
    async (field) => {
      const echo = createEcho(QueryMsgSchema, post("/v1", field));
      expect(await call(echo, createRequest("POST", "/v1", "null"))).toEqual({ status: 200, body: {} });
    },
  );
});

describe("a request without a body", () => {
  /** A body of unknown length that turns out to be empty. */
  const empty = (method: string, path: string, contentType?: string) => ({
    ...createRequest(method, path, ""),
    headers: contentType === undefined ? {} : { "content-type": contentType },
  });

  test.each([undefined, "application/json", "text/plain"])(
    "is accepted with any Content-Type: %s",
    async (contentType) => {
      const echo = createEcho(MessageSchema, get("/v1/{message_id}"));
      expect(await call(echo, empty("GET", "/v1/1", contentType))).toMatchObject({ status: 200 });
      const all = createEcho(MessageSchema, post("/v1", "*"));
      expect(await call(all, empty("POST", "/v1", contentType))).toEqual({ status: 200, body: {} });
    },
  );

  test("is {} for a message, and rejected for other fields", async () => {
    const nested = createEcho(QueryMsgSchema, post("/v1", "nested"));
    expect(await call(nested, empty("POST", "/v1"))).toEqual({ status: 200, body: { nested: {} } });
    const required = createEcho(UpdateFlowRequestSchema, post("/v1", "flow"));
    expect(await call(required, empty("POST", "/v1"))).toMatchObject({
      status: 400,
      body: { code: "invalid_argument", reason: "invalid_json" },
    });
    const scalar = createEcho(QueryMsgSchema, post("/v1", "int32_value"));
    expect(await call(scalar, empty("POST", "/v1"))).toMatchObject({
      status: 400,
      body: { code: "invalid_argument", reason: "invalid_json" },
    });
    expect(await call(scalar, empty("POST", "/v1", "text/plain"))).toMatchObject({ status: 415 });
  });

  test("is distinguished from a body of an unsupported media type", async () => {
    const echo = createEcho(MessageSchema, post("/v1", "*"));
    expect(await call(echo, createRequest("POST", "/v1", "x", "text/plain"))).toMatchObject({ status: 415 });
  });
});

test("a body that is a member of a oneof can't be combined with another member in the path", () => {
  expect(() => createEcho(GetUserRequestSchema, post("/v1/{user_id}", "email"))).toThrow(
    /email.*can't be the body: the path binds user_id, a member of the same oneof/,
  );
});

test.each(["*", "a_b,*"])("a FieldMask can contain %s (AIP-134)", async (mask) => {
  const echo = createEcho(QueryMsgSchema, get("/v1"));
  expect(await call(echo, createRequest("GET", `/v1?fieldmask_value=${mask}`))).toEqual({
    status: 200,
    body: { fieldmaskValue: mask.replace("a_b", "aB") },
  });
});

test("a body from a promise of another realm is read", async () => {
  const Other = runInNewContext("Promise") as PromiseConstructor;
  const echo = createEcho(MessageSchema, post("/v1", "*"));
  const request = { ...createRequest("POST", "/v1", "-"), readBody: () => Other.resolve(Buffer.from('{"text":"x"}')) };
  expect(await call(echo, request)).toEqual({ status: 200, body: { text: "x" } });
});

test("a 406 due to Accept has Vary: Accept", async () => {
  const { gateway } = createEcho(MessageSchema, get("/v1/{message_id}"));
  const response = await gateway.handle({ ...createRequest("GET", "/v1/1"), headers: { accept: "text/html" } });
  expect(response).toMatchObject({ status: 406, headers: { vary: "Accept" } });
});
