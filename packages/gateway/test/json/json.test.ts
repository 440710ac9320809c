import {
  create,
  createFileRegistry,
  fromBinary,
  fromJson,
  toBinary,
  type DescMessage,
  type Message,
  type MessageInitShape,
} from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FieldOptions_JSType,
  UninterpretedOptionSchema,
  file_google_protobuf_struct,
  FileDescriptorProtoSchema,
  StructSchema,
  ValueSchema,
} from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { BodiesSchema, QueryMsgSchema, type EnumValue, type QueryMsg } from "../gen/t/v1/vectors_pb.ts";
import { ExactMessageSchema, OpenThingResponseSchema, ThingSchema } from "../gen/gatewaytest/v1/things_pb.ts";
import { createGateway, RequestError } from "../../src/index.ts";
import { messageHoldsInt64 } from "../../src/json/int64.ts";
import { parseJson } from "../../src/json/parse.ts";
import { createJsonReaders } from "../../src/json/read.ts";
import { formatJson } from "../../src/json/well-formed.ts";
import { messageWriter } from "../../src/json/write.ts";
import { createReachableRegistry } from "../../src/schema/registry.ts";
import { call, createEcho, createMethod, createRequest } from "../service.ts";

const registry = createReachableRegistry([]);
const read = (text: string, desc: DescMessage = QueryMsgSchema): Message =>
  createJsonReaders({ ignoreUnknown: false, registry }).message(desc)(
    parseJson(Buffer.from(text), 100, { exact: messageHoldsInt64(desc) }),
    [],
  ) as Message;
const write = (message: Message, desc: DescMessage = QueryMsgSchema): string =>
  JSON.stringify(messageWriter(desc, registry)(message));

const faultOf = (text: string, desc?: DescMessage): string => {
  try {
    read(text, desc);
  } catch (error) {
    if (error instanceof RequestError) {
      return error.message;
    }
    throw error;
  }
  return "accepted";
};

describe("integers beyond 2^53", () => {
  test("are exact, as literals too", () => {
    const message = read(
      '{"int64Value":9223372036854775807,"sint64Value":-9223372036854775808,"uint64Value":18446744073709551615,"fixed64Value":9007199254740993,"wrapperInt64Value":9007199254740993,"repeatedWrapper":[18446744073709551615],"nested":{"int64Value":-9007199254740993}}',
    ) as QueryMsg;
    expect(message).toMatchObject({
      int64Value: 2n ** 63n - 1n,
      sint64Value: -(2n ** 63n),
      uint64Value: 2n ** 64n - 1n,
      fixed64Value: 2n ** 53n + 1n,
      wrapperInt64Value: 2n ** 53n + 1n,
      repeatedWrapper: [{ value: 2n ** 64n - 1n }],
      nested: { int64Value: -(2n ** 53n) - 1n },
    });
  });

  test.each<[value: string, expected: bigint]>([
    ["9007199254740993.0", 2n ** 53n + 1n],
    ["1e18", 10n ** 18n],
    ["-9.223372036854775808e18", -(2n ** 63n)],
    ['"1e2"', 100n],
    ['"-9.223372036854775808E+18"', -(2n ** 63n)],
  ])("may have an exponent, in quotes too: %s", (value, expected) => {
    expect((read(`{"int64Value":${value}}`) as QueryMsg).int64Value).toBe(expected);
  });

  test("stay doubles where JSON is kept as JSON", () => {
    const message = read(
      '{"int64Value":9007199254740993,"structValue":{"a":[9007199254740993]},"structValueValue":9007199254740993,"listValue":[9007199254740993],"doubleValue":9007199254740993}',
    ) as QueryMsg;
    expect(message).toMatchObject({ int64Value: 2n ** 53n + 1n, structValue: { a: [2 ** 53] }, doubleValue: 2 ** 53 });
    expect(write(message)).toBe(
      '{"doubleValue":9007199254740992,"int64Value":"9007199254740993","structValue":{"a":[9007199254740992]},"structValueValue":9007199254740992,"listValue":[9007199254740992]}',
    );
  });

  test("are exact in messages of google.protobuf, too", async () => {
    const echo = createEcho(UninterpretedOptionSchema, { pattern: { case: "post", value: "/q" }, body: "*" });
    const body = '{"positiveIntValue":18446744073709551615,"negativeIntValue":-9007199254740993}';
    expect(await call(echo, createRequest("POST", "/q", body))).toEqual({
      status: 200,
      body: { positiveIntValue: "18446744073709551615", negativeIntValue: "-9007199254740993" },
    });
  });

  test("are exact in a map that a query gives as JSON", async () => {
    const echo = createEcho(ThingSchema, { pattern: { case: "get", value: "/q" } });
    const byName = encodeURIComponent('{"a":{"large":9223372036854775807,"struct":{"a":9007199254740993}}}');
    expect(await call(echo, createRequest("GET", `/q?byName=${byName}`))).toEqual({
      status: 200,
      body: { byName: { a: { large: "9223372036854775807", struct: { a: 2 ** 53 } } } },
    });
  });

  test.each([
    ['{"int64Value":9223372036854775808}', "int64Value: must be a 64-bit integer"],
    ['{"uint64Value":18446744073709551616}', "uint64Value: must be a 64-bit integer, 0 or more"],
    ['{"int64Value":9007199254740993.5}', "int64Value: must be a 64-bit integer"],
    ['{"int64Value":"9007199254740993.5"}', "int64Value: must be a 64-bit integer"],
    ['{"int64Value":9.223372036854775808e18}', "int64Value: must be a 64-bit integer"],
    ['{"int64Value":1e20}', "int64Value: must be a 64-bit integer"],
    ['{"int64Value":"15.0e-1"}', "int64Value: must be a 64-bit integer"],
    ['{"int32Value":9007199254740993}', "int32Value: must be a 32-bit integer"],
    ['{"stringValue":9007199254740993}', "stringValue: must be a string"],
    ['{"boolValue":9007199254740993}', "boolValue: must be true or false"],
    ['{"bytesValue":9007199254740993}', "bytesValue: must be bytes in base64"],
    ['{"nested":9007199254740993}', "nested: must be an object"],
    ['{"mapValue":9007199254740993}', "mapValue: must be an object"],
    ['{"structValue":9007199254740993}', "structValue: must be an object"],
    ['{"listValue":9007199254740993}', "listValue: must be an array"],
    ['{"anyValue":9007199254740993}', "anyValue: must be an object"],
    ['{"repeatedValue":9007199254740993}', "repeatedValue: must be an array"],
    ['{"durationValue":9007199254740993}', "durationValue: must be a duration in seconds, such as 1.5s"],
    ['{"enumValue":9007199254740993}', "enumValue: must be one of X, Y, Z"],
  ])("%s is a fault", (text, fault) => {
    expect(faultOf(text)).toBe(fault);
  });

  test("are kept in fields with exact_integers, and rounded in others", () => {
    const exact = (text: string): string => {
      const message = read(text, ExactMessageSchema);
      return write(message, ExactMessageSchema);
    };
    const kept = '{"number":9007199254740992,"value":[9007199254740994,1e+300],"x":-9007199254740992,"y":{"z":1e+23}}';
    expect(exact(kept)).toBe(kept);
    expect(exact('{"rounded":9007199254740993}')).toBe('{"rounded":9007199254740992}');
  });

  test.each([
    ['{"number":9007199254740993}', "number"],
    ['{"number":9007199254740993.0}', "number"],
    ['{"value":{"a":[1,-9007199254740993]}}', "value.a[1]"],
    ['{"x":[{"y z":18446744073709551615}]}', "x[0]['y z']"],
    [`{"x":1${"0".repeat(30)}1}`, "x"],
    [`{"x":1${"2".repeat(307)}}`, "x"],
  ])("are rejected in fields with exact_integers: %s", (text, path) => {
    expect(faultOf(text, ExactMessageSchema)).toBe(
      `${path}: must be an integer that a double can represent, or a string`,
    );
  });

  test("are looked for only in messages that have 64-bit fields", () => {
    expect([
      messageHoldsInt64(QueryMsgSchema),
      messageHoldsInt64(BodiesSchema),
      messageHoldsInt64(ValueSchema),
    ]).toEqual([true, true, false]);
  });
});

test.each<[text: string, fault: unknown]>([
  ['{"repeatedValue":[null]}', "repeatedValue[0]: must be a string"],
  ['{"repeatedEnum":["X",null]}', "repeatedEnum[1]: must be one of X, Y, Z"],
  ['{"repeatedEnum":["W"]}', "repeatedEnum[0]: must be one of X, Y, Z"],
  ['{"repeatedWrapper":[null]}', "repeatedWrapper[0]: must be a 64-bit integer, 0 or more"],
  [
    '{"repeatedNested":[{},{"nested":{"repeatedNested":[null]}}]}',
    "repeatedNested[1].nested.repeatedNested[0]: must be an object",
  ],
  ['{"mapValue":{"a":null}}', "mapValue.a: must be a string"],
  ['{"mapValue15":{"True":"x"}}', "mapValue15.True: the key must be true or false"],
  ['{"mapValue2":{"a b":"x"}}', "mapValue2['a b']: must be a 32-bit integer"],
  ['{"timestampValue":"2021-02-29T00:00:00Z"}', expect.stringMatching(/^timestampValue: must be a time/)],
  ['{"timestampValue":1}', expect.stringMatching(/^timestampValue: must be a time/)],
  ['{"durationValue":"1.0"}', expect.stringMatching(/^durationValue: must be a duration/)],
  ['{"fieldmaskValue":["a"]}', expect.stringMatching(/^fieldmaskValue: must be names of fields/)],
  ['{"structValue":[]}', "structValue: must be an object"],
  ['{"listValue":{}}', "listValue: must be an array"],
  [
    '{"anyValue":{"@type":"type.googleapis.com/none.None"}}',
    "anyValue['@type']: must name a known type, not type.googleapis.com/none.None",
  ],
  ['{"wrapperBytesValue":"*"}', "wrapperBytesValue: must be bytes in base64"],
  ['{"oneofStringValue":"","oneofNested":{}}', "oneofNested: oneofStringValue of the same oneof is already set"],
  ['{"custom_name":"a","kebab-name":"b"}', "custom_name: set twice, as kebab-name and custom_name"],
  ['{"kebab-name":"a","custom_name":null}', "custom_name: set twice, as kebab-name and custom_name"],
  ['{"int32Value":1.5}', "int32Value: must be a 32-bit integer"],
  ['{"uint32Value":4294967296}', "uint32Value: must be a 32-bit integer, 0 or more"],
])("%s is a fault that says where", (text, fault) => {
  expect(faultOf(text)).toEqual(fault);
});

test.each([
  // Each of proto3 JSON's spellings, and how it is written back.
  ['{"doubleValue":-0,"floatValue":"-Infinity","nested":{"doubleValue":"NaN","floatValue":-0}}'],
  ['{"floatValue":3.4028234663852886e+38}'],
  ['{"int64Value":"-1","uint64Value":"18446744073709551615","bytesValue":"+/8="}'],
  ['{"optionalValue":"","optionalInt32":0}'],
  [
    '{"wrapperBoolValue":false,"wrapperInt32Value":0,"wrapperInt64Value":"0","wrapperStringValue":"","wrapperBytesValue":""}',
  ],
  ['{"repeatedWrapper":["0","1"],"mapValue":{"":"x"},"mapValue15":{"true":"x","false":""}}'],
  ['{"timestampValue":"0001-01-01T00:00:00Z","durationValue":"-315576000000s","fieldmaskValue":"aB,c.dE"}'],
  ['{"timestampValue":"2024-02-29T23:59:59.100Z"}'],
  ['{"timestampValue":"2024-02-29T23:59:59.000001Z"}'],
  ['{"timestampValue":"0099-12-31T23:59:59.000000001Z"}'],
  ['{"structValue":{},"structValueValue":null,"listValue":[]}'],
  ['{"structValue":{"a":{"b":[null,true,""]}},"structValueValue":[{"a":1}]}'],
  ['{"enumValue":-7,"repeatedEnum":["X","Z",42]}'],
  ['{"oneofBoolValue":false}'],
  ['{"oneofNested":{}}'],
  ['{"kebab-name":"x"}'],
])("%s comes back as it is", (text) => {
  expect(write(read(text))).toBe(text);
});

test.each([
  ['{"int32_value":"-0","int64Value":-0,"uint32Value":1.0,"sint32Value":1e3}', '{"uint32Value":1,"sint32Value":1000}'],
  ['{"doubleValue":"1.5","floatValue":"1e3"}', '{"doubleValue":1.5,"floatValue":1000}'],
  ['{"floatValue":3.4028235e38}', '{"floatValue":3.4028234663852886e+38}'],
  ['{"bytesValue":"-_8"}', '{"bytesValue":"+/8="}'],
  ['{"fieldmaskValue":"a_b,cD"}', '{"fieldmaskValue":"aB,cD"}'],
  ['{"timestampValue":"2021-01-01T00:00:00+02:00"}', '{"timestampValue":"2020-12-31T22:00:00Z"}'],
  ['{"durationValue":"0.5s","enumValue":0}', '{"durationValue":"0.500s"}'],
  [
    '{"repeatedValue":null,"mapValue":null,"nested":null,"enumValue":null,"oneofStringValue":null,"wrapperInt32Value":null,"structValue":null}',
    "{}",
  ],
])("%s is written as %s", (text, written) => {
  expect(write(read(text))).toBe(written);
});

test("a lenient field has the values of its type, and others are kept under its name", () => {
  const fitting = '{"id":"a","note":"n","tags":[],"map":{"b":1}}';
  const other = '{"id":"a","note":2,"tags":[],"map":"b"}';
  expect(read(fitting, OpenThingResponseSchema)).toMatchObject({ note: "n", map: { b: 1 } });
  expect(read(other, OpenThingResponseSchema)).toMatchObject({ others: { note: 2, map: "b" } });
  for (const text of [fitting, other]) {
    expect(JSON.parse(write(read(text, OpenThingResponseSchema), OpenThingResponseSchema))).toEqual(JSON.parse(text));
  }
});

describe("__proto__ as a key is data", () => {
  test.each([
    '{"mapValue":{"__proto__":"x","a":"b"}}',
    '{"mapValue":{"a":"b","__proto__":"x"}}',
    '{"mapValue2":{"__proto__":1}}',
    '{"structValue":{"__proto__":{"__proto__":[{"__proto__":null}]}}}',
    '{"structValueValue":{"__proto__":{"a":1}}}',
    '{"listValue":[{"__proto__":"x"}]}',
    '{"int64Value":"9007199254740993","structValue":{"__proto__":1}}',
  ])("%s", (text) => {
    const message = read(text);
    expect(write(message)).toBe(text);
    expect(write(fromBinary(QueryMsgSchema, toBinary(QueryMsgSchema, message as QueryMsg)))).toBe(text);
    expect(Object.getPrototypeOf((message as QueryMsg).mapValue)).toBe(Object.prototype);
  });

  test("in a document with integers beyond 2^53, and in an inline field", () => {
    expect(write(read('{"int64Value":9007199254740993,"structValue":{"__proto__":1}}'))).toBe(
      '{"int64Value":"9007199254740993","structValue":{"__proto__":1}}',
    );
    const text = '{"id":"a","tags":[],"__proto__":{"b":1}}';
    expect(write(read(text, OpenThingResponseSchema), OpenThingResponseSchema)).toBe(text);
  });

  test.each([
    ["GET", "/q?map_value[__proto__]=x", undefined],
    ["GET", `/q?map_value=${encodeURIComponent('{"__proto__":"x"}')}`, undefined],
    ["POST", "/f", "map_value[__proto__]=x"],
  ])("%s %s %s", async (method, target, body) => {
    const echo = createEcho(
      QueryMsgSchema,
      {
        pattern: { case: "get", value: "/q" },
        additionalBindings: [{ pattern: { case: "post", value: "/f" }, body: "*" }],
      },
      {},
      { consumes: ["application/x-www-form-urlencoded"] },
    );
    const request = createRequest(method, target, body, "application/x-www-form-urlencoded");
    expect(JSON.stringify(await call(echo, request))).toBe('{"status":200,"body":{"mapValue":{"__proto__":"x"}}}');
  });

  test("unless the option forbids it", async () => {
    const rule = { pattern: { case: "post", value: "/q" }, body: "*" } as const;
    const echo = createEcho(QueryMsgSchema, rule, { prototypeKeys: "reject" });
    expect(await call(echo, createRequest("POST", "/q", '{"mapValue":{"__proto__":"x"}}'))).toEqual({
      status: 400,
      body: {
        code: "invalid_argument",
        reason: "invalid_json",
        message: "mapValue.__proto__: this key is not allowed",
      },
    });
    expect(echo.seen).toEqual([]);
  });
});

test("a Struct that is a whole request or response is a message", async () => {
  const echo = createEcho(StructSchema, { pattern: { case: "post", value: "/q" }, body: "*" });
  const body = { a: [1, null, { b: "" }], c: {} };
  expect(await call(echo, createRequest("POST", "/q", JSON.stringify(body)))).toEqual({ status: 200, body });
  expect(echo.seen).toEqual([fromJson(StructSchema, body)]);
});

test("writing a Timestamp out of range throws a RangeError", () => {
  const message = create(QueryMsgSchema, { timestampValue: { seconds: 2n ** 60n } });
  expect(() => write(message)).toThrow(RangeError);
});

test("reading {} returns the same message as create", () => {
  expect(Object.keys(read("{}")).toSorted()).toEqual(Object.keys(create(QueryMsgSchema)).toSorted());
  expect(read("{}")).toEqual(create(QueryMsgSchema));
  const [one, two] = [read("{}") as QueryMsg, read("{}") as QueryMsg];
  one.repeatedValue.push("x");
  one.mapValue["x"] = "x";
  expect(two).toEqual(create(QueryMsgSchema));
});

test.each<[init: MessageInitShape<typeof QueryMsgSchema>, message: string]>([
  [{ int32Value: Number.NaN }, "t.v1.QueryMsg.int32_value can't hold NaN"],
  [{ sint32Value: 2 ** 31 }, "t.v1.QueryMsg.sint32_value can't hold 2147483648"],
  [{ uint32Value: -1 }, "t.v1.QueryMsg.uint32_value can't hold -1"],
  [{ repeatedInt32: [1.5] }, "t.v1.QueryMsg.repeated_int32 can't hold 1.5"],
  [{ mapValue2: { a: Number.POSITIVE_INFINITY } }, "t.v1.QueryMsg.map_value2 can't hold Infinity"],
  [{ wrapperInt32Value: 0.5 }, "google.protobuf.Int32Value.value can't hold 0.5"],
  [{ enumValue: Number.NaN as EnumValue }, "t.v1.EnumValue can't hold NaN"],
])("writing a number that its field can't hold throws: %j", (init, message) => {
  expect(() => write(create(QueryMsgSchema, init))).toThrow(message);
});

test.each<[field: string, value: unknown, message: string]>([
  ["int64Value", 5, "field t.v1.QueryMsg.int64_value can't hold 5"],
  ["int64Value", "5", "field t.v1.QueryMsg.int64_value can't hold this string"],
  ["int64Value", 2n ** 63n, "field t.v1.QueryMsg.int64_value can't hold 9223372036854775808"],
  ["uint64Value", -1n, "field t.v1.QueryMsg.uint64_value can't hold -1"],
  ["stringValue", 5, "field t.v1.QueryMsg.string_value can't hold 5"],
  ["stringValue", "\ud800", "stringValue: a string with a lone surrogate"],
  ["boolValue", "true", "field t.v1.QueryMsg.bool_value can't hold this string"],
  ["bytesValue", "AAAA", "field t.v1.QueryMsg.bytes_value can't hold this string"],
  ["doubleValue", 5n, "field t.v1.QueryMsg.double_value can't hold 5"],
  ["floatValue", 1e39, "field t.v1.QueryMsg.float_value can't hold 1e+39"],
  ["repeatedValue", ["a", 5], "field t.v1.QueryMsg.repeated_value can't hold 5"],
  ["repeatedValue", ["a", "\udc00"], "repeatedValue[1]: a string with a lone surrogate"],
  ["mapValue", { a: 5 }, "field t.v1.QueryMsg.map_value can't hold 5"],
  ["mapValue", { "\ud83d": "a" }, "mapValue['\\ud83d']: a string with a lone surrogate"],
  ["mapValue15", { yes: "a" }, "field t.v1.QueryMsg.map_value15 can't hold this string"],
  ["structValue", { a: [{ b: "\udfff" }] }, "structValue.a[0].b: a string with a lone surrogate"],
  ["wrapperStringValue", 5, "field google.protobuf.StringValue.value can't hold 5"],
])("an implementation's %s of %o is 500", async (field, value, message) => {
  let cause: unknown;
  const gateway = createGateway({
    routes: (router) =>
      router.rpc(createMethod(QueryMsgSchema, { pattern: { case: "get", value: "/q" } }), () =>
        Object.assign(create(QueryMsgSchema), { [field]: value }),
      ),
    mapError(error) {
      cause = error;
      return ConnectError.from(error, Code.Internal);
    },
  });
  expect(await call({ gateway }, createRequest("GET", "/q"))).toMatchObject({ status: 500 });
  expect(cause).toEqual(new RangeError(message));
});

test("pairs of surrogates and escapes that look like a lone one are written", () => {
  const text = JSON.stringify({ stringValue: "😀 C:\\ud83d \\\\ud83d" });
  expect(formatJson(messageWriter(QueryMsgSchema, registry)(read(text)))).toBe(text);
});

test("a JSON name takes precedence over another field's proto name", async () => {
  const text = { label: Label.OPTIONAL, type: Type.STRING };
  const file = create(FileDescriptorProtoSchema, {
    name: "names.proto",
    syntax: "proto3",
    messageType: [
      {
        name: "Names",
        field: [
          { ...text, name: "one", jsonName: "two", number: 1 },
          { ...text, name: "two", jsonName: "three", number: 2 },
          { ...text, name: "constructor", jsonName: "one_one", number: 3 },
        ],
      },
    ],
  });
  const desc = createFileRegistry(file, () => undefined).getMessage("Names") as DescMessage;
  const echo = createEcho(desc, {
    pattern: { case: "post", value: "/q" },
    body: "*",
    additionalBindings: [{ pattern: { case: "get", value: "/q" } }],
  });
  const body = { two: "2", three: "3", one_one: "c" };
  expect(await call(echo, createRequest("POST", "/q", JSON.stringify(body)))).toEqual({ status: 200, body });
  expect(await call(echo, createRequest("GET", "/q?two=2&three=3&one_one=c"))).toEqual({ status: 200, body });
  expect(await call(echo, createRequest("POST", "/q", '{"one":"2","constructor":"c"}'))).toEqual({
    status: 200,
    body: { two: "2", one_one: "c" },
  });
});

describe("a message of proto2", () => {
  const file = create(FileDescriptorProtoSchema, {
    name: "old.proto",
    syntax: "proto2",
    dependency: ["google/protobuf/struct.proto"],
    messageType: [
      {
        name: "Old",
        field: [
          { name: "count", jsonName: "count", number: 1, label: Label.OPTIONAL, type: Type.INT32, defaultValue: "5" },
          {
            name: "large",
            jsonName: "large",
            number: 2,
            label: Label.OPTIONAL,
            type: Type.INT64,
            options: { jstype: FieldOptions_JSType.JS_STRING },
          },
          {
            name: "many",
            jsonName: "many",
            number: 3,
            label: Label.REPEATED,
            type: Type.UINT64,
            options: { jstype: FieldOptions_JSType.JS_STRING },
          },
          {
            name: "nothing",
            jsonName: "nothing",
            number: 4,
            label: Label.OPTIONAL,
            type: Type.ENUM,
            typeName: ".google.protobuf.NullValue",
          },
          {
            name: "closed",
            jsonName: "closed",
            number: 5,
            label: Label.OPTIONAL,
            type: Type.ENUM,
            typeName: ".Colour",
          },
        ],
      },
    ],
    enumType: [{ name: "Colour", value: [{ name: "RED", number: 1 }] }],
  });
  const desc = createFileRegistry(file, () => file_google_protobuf_struct).getMessage("Old") as DescMessage;

  test.each([
    ["{}"],
    ['{"count":5}'],
    ['{"count":0}'],
    ['{"large":"9223372036854775807","many":["0","18446744073709551615"]}'],
    ['{"nothing":null}'],
    ['{"closed":"RED"}'],
  ])("%s comes back as it is, and by a query", async (text) => {
    const message = read(text, desc);
    expect(write(message, desc)).toBe(text);
    const echo = createEcho(desc, { pattern: { case: "get", value: "/q" } });
    const query = Object.entries(JSON.parse(text) as object).flatMap(([name, value]: [string, unknown]) =>
      (Array.isArray(value) ? value : [value]).map((each) => `${name}=${each === null ? "NULL_VALUE" : String(each)}`),
    );
    expect(await call(echo, createRequest("GET", `/q?${query.join("&")}`))).toEqual({
      status: 200,
      body: JSON.parse(text) as unknown,
    });
    expect(echo.seen).toEqual([message]);
  });

  test("takes no number that its closed enum does not have", async () => {
    expect(() => read('{"closed":2}', desc)).toThrow("closed: must be one of RED");
    const echo = createEcho(desc, { pattern: { case: "get", value: "/q" } });
    expect(await call(echo, createRequest("GET", "/q?closed=2"))).toMatchObject({ status: 400 });
  });
});

test("a list that is no array is written item by item", () => {
  const message = Object.assign(create(BodiesSchema), { nums: Int32Array.of(1, 2) });
  expect(write(message, BodiesSchema)).toBe('{"nums":[1,2]}');
});
