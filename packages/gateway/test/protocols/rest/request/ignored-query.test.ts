import type { MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import type { HttpRuleSchema } from "../../../../gen/google/api/http_pb.ts";
import { GetMessageRequestSchema, QueryMsgSchema } from "../../../gen/t/v1/vectors_pb.ts";
import { call, createEcho, createRequest } from "../../../service.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;

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
    const response = await call(
      createEcho(QueryMsgSchema, { pattern: { case: "get", value: "/q" } }, ignoring),
      createRequest("GET", `/q?${query}`),
    );
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
