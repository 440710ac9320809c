import {
  create,
  ScalarType,
  toJson,
  type DescField,
  type DescMessage,
  type Message,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { HttpRuleSchema } from "../gen/google/api/http_pb.ts";
import { EnumValue, QueryMsgSchema, type QueryMsg } from "./gen/t/v1/vectors_pb.ts";
import { anyMessage, anyTypes } from "./any-message.ts";
import { formatQuery, formatText } from "./format-query.ts";
import type { GatewayRequest } from "../src/http/request.ts";
import { call, createEcho, createRequest } from "./service.ts";
import { propertyRuns } from "./property-runs.ts";

type Rule = MessageInitShape<typeof HttpRuleSchema>;

const json = (message: Message): object =>
  toJson(QueryMsgSchema, message as QueryMsg, { registry: anyTypes }) as object;
/** JSON.stringify omits the sign of -0. */
const stringify = (value: unknown): string =>
  JSON.stringify(value, (_key, item: unknown) => (Object.is(item, -0) ? "-0" : item));
const isAny = ({ name }: DescField): boolean => name === "any_value";
/** Can't be set by parameters. */
const isUnbound = (field: DescField): boolean => field.name === "repeated_nested" || isAny(field);

/** The messages of gapic-showcase's compliance suite, with the fields of QueryMsg. */
const compliance: Record<string, MessageInitShape<typeof QueryMsgSchema>> = {
  "basic data types": {
    stringValue: "Hello",
    int32Value: -1,
    sint32Value: -2,
    sfixed32Value: -3,
    uint32Value: 5,
    fixed32Value: 7,
    int64Value: -11n,
    sint64Value: -13n,
    sfixed64Value: -17n,
    uint64Value: 19n,
    fixed64Value: 23n,
    doubleValue: -29e4,
    floatValue: -31,
    boolValue: true,
    enumValue: EnumValue.Z,
    bytesValue: Buffer.from("abc123!?$*&()'-=@~"),
    nested: {
      stringValue: "second/greetings",
      boolValue: false,
      oneofValue: { case: "oneofNested", value: { stringValue: "deep" } },
    },
  },
  "with extremes": {
    stringValue: "non-ASCII: 你好, 世界 😀 ü %2F%25 %zz a/b?c#d&e=f+g",
    int32Value: 2147483647,
    sint32Value: -2147483648,
    sfixed32Value: -2147483648,
    uint32Value: 4294967295,
    fixed32Value: 4294967295,
    int64Value: 2n ** 63n - 1n,
    sint64Value: -(2n ** 63n),
    sfixed64Value: -(2n ** 63n),
    uint64Value: 2n ** 64n - 1n,
    fixed64Value: 2n ** 64n - 1n,
    doubleValue: Number.MAX_VALUE,
    floatValue: 3.4028234663852886e38,
    optionalValue: "",
    optionalInt32: 0,
    nested: { doubleValue: Number.MIN_VALUE, floatValue: -0, optionalValue: "" },
  },
  "with zeros": {
    stringValue: "z",
    nested: { stringValue: "n" },
    doubleValue: -0,
    optionalInt32: 0,
    wrapperInt64Value: 0n,
    wrapperStringValue: "",
    oneofValue: { case: "oneofBoolValue", value: false },
  },
};

const paths = [
  "string_value",
  "int32_value",
  "sint64_value",
  "uint64_value",
  "double_value",
  "bool_value",
  "enum_value",
  "bytes_value",
  "nested.string_value",
] as const;

describe.each(Object.entries(compliance))("a message %s survives", (_name, init) => {
  const message = create(QueryMsgSchema, init);

  test("a query, with proto and JSON names", async () => {
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "get", value: "/q" } });
    for (const nameOf of [({ name }: DescField) => name, ({ jsonName }: DescField) => jsonName]) {
      const response = await call(echo, createRequest("GET", `/q?${formatQuery(QueryMsgSchema, message, nameOf)}`));
      expect(response).toEqual({ status: 200, body: json(message) });
    }
    expect(echo.seen.map(json)).toEqual([json(message), json(message)]);
  });

  test("a body", async () => {
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "post", value: "/q" }, body: "*" });
    expect(await call(echo, createRequest("POST", "/q", stringify(json(message))))).toEqual({
      status: 200,
      body: json(message),
    });
  });

  test("a body that is a field", async () => {
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "put", value: "/q" }, body: "nested" });
    const body = stringify(json(message));
    expect(await call(echo, createRequest("PUT", "/q", body))).toEqual({
      status: 200,
      body: { nested: json(message) },
    });
  });

  test.each(paths)("a path: %s", async (path) => {
    const { template, target } = pathOf([path], message);
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "get", value: template } });
    const rest = parametersBeside([path], message);
    expect(await call(echo, createRequest("GET", `${target}?${rest}`))).toEqual({ status: 200, body: json(message) });
  });
});

/** A template with these fields as variables, and its expansion with the values of a message. */
function pathOf(fieldPaths: readonly string[], message: Message): { template: string; target: string } {
  const values = fieldPaths.map((path) => {
    const { field, value } = fieldAt(path, message);
    return encodeURIComponent(formatText(field, value) ?? "");
  });
  return {
    template: `/v1/${fieldPaths.map((path) => `{${path}=**}`.replace("=**", fieldPaths.length === 1 ? "=**" : "")).join("/")}`,
    target: `/v1/${values.join("/").replaceAll("%2F", fieldPaths.length === 1 ? "/" : "%2F")}`,
  };
}

function fieldAt(path: string, message: Message): { field: DescField; value: unknown } {
  let desc: DescMessage = QueryMsgSchema;
  let value: unknown = message;
  let field: DescField | undefined;
  for (const name of path.split(".")) {
    field = desc.fields.find((each) => each.name === name) as DescField;
    value = (value as Record<string, unknown> | undefined)?.[field.localName];
    desc = field.message ?? desc;
  }
  const text = field as DescField;
  return {
    field: text,
    value: value ?? (text.fieldKind === "scalar" && text.scalar === ScalarType.STRING ? "" : undefined),
  };
}

/** The query of all fields that are not in the path. */
function parametersBeside(fieldPaths: readonly string[], message: Message): string {
  return formatQuery(QueryMsgSchema, message)
    .split("&")
    .filter((parameter) => !fieldPaths.includes(decodeURIComponent(parameter.split("=")[0] ?? "")))
    .join("&");
}

describe("any message is returned unchanged", () => {
  const check = async (echo: ReturnType<typeof createEcho>, request: GatewayRequest, expected: object) => {
    expect(await call(echo, request)).toEqual({ status: 200, body: expected });
    expect(json(echo.seen.at(-1) as Message)).toEqual(expected);
  };

  test("from a query", async () => {
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "get", value: "/q" } });
    await fc.assert(
      fc.asyncProperty(anyMessage(QueryMsgSchema, { without: isUnbound }), fc.boolean(), async (message, camel) => {
        const query = formatQuery(QueryMsgSchema, message, (field) => (camel ? field.jsonName : field.name));
        await check(echo, createRequest("GET", `/q?${query}`), json(message));
      }),
      propertyRuns(300),
    );
  });

  test("from a body", async () => {
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "post", value: "/q" }, body: "*" });
    await fc.assert(
      fc.asyncProperty(anyMessage(QueryMsgSchema), async (message) => {
        await check(echo, createRequest("POST", "/q", stringify(json(message))), json(message));
      }),
      propertyRuns(300),
    );
  });

  test("from path, query and body together", async () => {
    const variables = ["string_value", "int64_value", "enum_value", "nested.string_value"] as const;
    const { template } = pathOf(variables, create(QueryMsgSchema));
    const echo = createEcho(QueryMsgSchema, { pattern: { case: "post", value: template }, body: "repeated_nested" });
    await fc.assert(
      fc.asyncProperty(anyMessage(QueryMsgSchema, { without: isAny }), async (given) => {
        const message = given as QueryMsg;
        message.stringValue ||= "s";
        message.nested ??= create(QueryMsgSchema);
        message.nested.stringValue ||= "n";
        // Can't be set by a query.
        message.nested.repeatedNested = [];
        if (message.oneofValue.case === "oneofNested") {
          message.oneofValue.value.repeatedNested = [];
        }
        const { target } = pathOf(variables, message);
        const query = parametersBeside([...variables, "repeated_nested"], message);
        const body = stringify((json(message) as { repeatedNested?: object }).repeatedNested ?? []);
        await check(echo, createRequest("POST", `${target}?${query}`, body), json(message));
      }),
      propertyRuns(300),
    );
  });
});

test("a field is never set twice", async () => {
  const names = [
    "string_value",
    "stringValue",
    "nested.string_value",
    "nested.stringValue",
    "nested.int32_value",
    "oneof_string_value",
    "oneof_bool_value",
    "oneofNested.string_value",
    "struct_value",
    "map_value[a]",
    "mapValue[b]",
    "kebab-name",
    "custom_name",
    "int32_value",
  ];
  const values = ["x", "1", "true", "{}", '{"a":"q"}', ""];
  const rule: Rule = {
    pattern: { case: "post", value: "/v1/{string_value}/{nested.string_value}/{oneof_string_value}/{custom_name}" },
    body: "map_value",
  };
  const echo = createEcho(QueryMsgSchema, rule, { boundQuery: "ignore" });
  const strict = createEcho(QueryMsgSchema, rule);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom(...names), fc.constantFrom(...values)), { maxLength: 6 }),
      async (pairs) => {
        const query = pairs
          .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
          .join("&");
        const response = await call(echo, createRequest("POST", `/v1/p/n/o/c?${query}`, '{"a":"body"}'));
        const strictly = await call(strict, createRequest("POST", `/v1/p/n/o/c?${query}`, '{"a":"body"}'));
        const free = /^(?:nested\.int32_value|struct_value|int32_value)$/;
        expect(strictly.status === 200).toBe(response.status === 200 && pairs.every(([name]) => free.test(name)));
        for (const message of [...echo.seen.splice(0), ...strict.seen.splice(0)]) {
          expect(message).toMatchObject({
            stringValue: "p",
            nested: { stringValue: "n" },
            oneofValue: { case: "oneofStringValue", value: "o" },
            customName: "c",
          });
          expect((message as QueryMsg).mapValue).toEqual({ a: "body" });
        }
      },
    ),
    propertyRuns(300),
  );
});

describe("no input results in a 500", () => {
  const statuses = new Set([200, 400, 404, 405, 413, 415]);
  const piece = fc.oneof(
    fc.constantFrom(
      ...QueryMsgSchema.fields.map(({ name }) => name),
      ...QueryMsgSchema.fields.map(({ jsonName }) => jsonName),
    ),
    fc.constantFrom(
      "&",
      "=",
      ".",
      "[",
      "]",
      "%",
      "%2",
      "%ff",
      "+",
      "null",
      "true",
      "1",
      "-0",
      "{}",
      "[]",
      '{"a":1}',
      "1s",
      "2020-01-01T00:00:00Z",
      "__proto__",
      "constructor",
      "😀",
      "\u00ff",
    ),
    fc.string({ maxLength: 3 }),
  );
  const text = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(""));

  test("of a query", async () => {
    const repeatsInput = (["reject", "ignore"] as const).map((unknownQuery) =>
      createEcho(
        QueryMsgSchema,
        { pattern: { case: "get", value: "/q/{string_value=**}" } },
        { unknownQuery, boundQuery: unknownQuery },
      ),
    );
    await fc.assert(
      fc.asyncProperty(text, text, async (path, query) => {
        for (const echo of repeatsInput) {
          expect(statuses).toContain((await call(echo, createRequest("GET", `/q/${path}?${query}`))).status);
        }
      }),
      propertyRuns(3000),
    );
  });

  test("of a form", async () => {
    const form = "application/x-www-form-urlencoded";
    const echo = createEcho(
      QueryMsgSchema,
      { pattern: { case: "post", value: "/q" }, body: "*" },
      {},
      { consumes: [form] },
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof(text, fc.uint8Array({ maxLength: 30 })), async (body) => {
        expect(statuses).toContain((await call(echo, createRequest("POST", "/q", body, form))).status);
      }),
      propertyRuns(2000),
    );
  });

  test("of a JSON body", async () => {
    const any = createEcho(QueryMsgSchema, { pattern: { case: "post", value: "/q" }, body: "*" });
    const fields = QueryMsgSchema.fields.map(({ jsonName }) => jsonName);
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom<unknown>(
        null,
        "",
        "1",
        -0,
        1e300,
        2 ** 63,
        {},
        [],
        [null],
        [[]],
        { a: null },
        { a: {} },
        { "": 1 },
        "1s",
        "a.b",
        "AQ==",
        "A_b",
        { "@type": "x" },
        { "@type": "type.googleapis.com/google.protobuf.Any", value: {} },
        { "@type": "type.googleapis.com/google.protobuf.Value", value: null },
        { "@type": "x/t.v1.QueryMsg", anyValue: {} },
        { value: 1 },
      ),
    );
    const message = fc.dictionary(
      fc.constantFrom(...fields),
      fc.oneof(value, fc.dictionary(fc.constantFrom(...fields), value, { maxKeys: 2 })),
      { maxKeys: 3 },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          message.map((each) => JSON.stringify(each)),
          text,
          fc.json(),
        ),
        async (body) => {
          expect(statuses).toContain((await call(any, createRequest("POST", "/q", body))).status);
        },
      ),
      propertyRuns(5000),
    );
  });
});
