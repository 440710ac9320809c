import { toJson, type DescMessage } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import * as schemas from "../../../gen/t/v1/vectors_pb.ts";
import type { GatewayOptions } from "../../../../src/index.ts";
import { call, createEcho, createRequest } from "../../../service.ts";
import { vectors } from "../../../vectors.ts";

const { QueryMsgSchema } = schemas;
const query = (text: string, options: Omit<GatewayOptions, "routes"> = {}) =>
  call(
    createEcho(QueryMsgSchema, { pattern: { case: "get", value: "/q" } }, options),
    createRequest("GET", `/q?${text}`),
  );

const anyText: unknown = expect.any(String);

type QueryVector = {
  schema: string;
  query: string;
  bound?: { path?: Record<string, string>; body?: string };
  options?: Pick<GatewayOptions, "unknownQuery" | "boundQuery">;
  expect: { ok: boolean; message?: object };
};

test.each(vectors<QueryVector>("query"))("%s", async (_id, vector) => {
  const schema = Object.values(schemas).find(
    (each): each is DescMessage & typeof QueryMsgSchema =>
      "kind" in each && each.kind === "message" && each.typeName === vector.schema,
  ) as DescMessage;
  const variables = Object.entries(vector.bound?.path ?? {});
  const path = (part: (entry: [string, string]) => string) => `/q${variables.map((each) => `/${part(each)}`).join("")}`;
  const body = vector.bound?.body;
  const template = path(([name]) => `{${name}}`);
  const echo = createEcho(
    schema,
    body === undefined
      ? { pattern: { case: "get", value: template } }
      : { pattern: { case: "post", value: template }, body },
    vector.options,
  );
  const target = `${path(([, value]) => encodeURIComponent(value))}?${vector.query}`;
  const response = await call(
    echo,
    createRequest(body === undefined ? "GET" : "POST", target, body === undefined ? undefined : "null"),
  );
  const { ok, message } = vector.expect;
  expect([response.status, ...echo.seen.map((each) => toJson(schema, each))]).toEqual(ok ? [200, message] : [400]);
  expect(response.body).toEqual(ok ? message : { code: "invalid_argument", message: anyText });
});

describe("a query", () => {
  test.each<[query: string, message: object]>([
    ["", {}],
    ["&&", {}],
    ["string_value", {}],
    ["optional_value", { optionalValue: "" }],
    ["kebab-name=a", { "kebab-name": "a" }],
    ["string_value=a=b", { stringValue: "a=b" }],
    ["string_value=%00%F0%9F%98%80", { stringValue: "\0😀" }],
    ["string_value=\u00c3\u00bc", { stringValue: "ü" }],
    ["%73tring_value=a", { stringValue: "a" }],
    ["nested%2Estring_value=a", { nested: { stringValue: "a" } }],
    ["nested.nested.optionalValue=", { nested: { nested: { optionalValue: "" } } }],
    ["oneof_nested.string_value=a&oneofNested.bool_value=true", { oneofNested: { stringValue: "a", boolValue: true } }],
    ["oneof_string_value=", { oneofStringValue: "" }],
    ["enum_value=1", { enumValue: "Y" }],
    ["enum_value=-1", { enumValue: -1 }],
    ["int64_value=-9223372036854775808&sint64_value=-0", { int64Value: "-9223372036854775808" }],
    ["double_value=-0", { doubleValue: -0 }],
    ["double_value=NaN&float_value=-Infinity", { doubleValue: "NaN", floatValue: "-Infinity" }],
    ["float_value=3.4028235e38", { floatValue: 3.4028234663852886e38 }],
    ["bytes_value=-_8", { bytesValue: "+/8=" }],
    ["bytes_value=-_8%3D", { bytesValue: "+/8=" }],
    ["bytes_value=", {}],
    ["wrapper_bytes_value=", { wrapperBytesValue: "" }],
    ["repeated_wrapper=1&repeatedWrapper=18446744073709551615", { repeatedWrapper: ["1", "18446744073709551615"] }],
    ["map_value[a.b]=1&map_value[[x]]=2&mapValue[]=3", { mapValue: { "a.b": "1", "[x]": "2", "": "3" } }],
    ["map_value[constructor]=1", { mapValue: { constructor: "1" } }],
    [
      "map_value2[a]=-7&map_value15[true]=x&map_value15[false]=y",
      { mapValue2: { a: -7 }, mapValue15: { true: "x", false: "y" } },
    ],
    ['map_value={"a":"b","c":"d"}&map_value[e]=f', { mapValue: { a: "b", c: "d", e: "f" } }],
    ['struct_value={"a":[1,null,9007199254740993]}', { structValue: { a: [1, null, 9007199254740992] } }],
    ["struct_value_value=null", { structValueValue: null }],
    ['struct_value_value="null"', { structValueValue: "null" }],
    ["timestamp_value=2021-01-01T00:00:00%2B02:00", { timestampValue: "2020-12-31T22:00:00Z" }],
    ["timestamp_value=9999-12-31T23:59:59.999999999Z", { timestampValue: "9999-12-31T23:59:59.999999999Z" }],
    ["duration_value=-0.5s", { durationValue: "-0.500s" }],
    [
      "fieldmask_value=float_value,nested.string_value,doubleValue",
      { fieldmaskValue: "floatValue,nested.stringValue,doubleValue" },
    ],
    ["fieldmask_value=", { fieldmaskValue: "" }],
    ["wrapper_string_value=%22quoted%22", { wrapperStringValue: '"quoted"' }],
    ["wrapper_string_value=null", { wrapperStringValue: "null" }],
  ])("%s", async (text, message) => {
    expect(await query(text)).toEqual({ status: 200, body: message });
  });

  const expectedTime =
    'a time as in RFC 3339, such as 2024-02-29T12:00:00Z (a "+" in a query means a space: write it as %2B)';
  test.each<[query: string, message: unknown]>([
    ["int32_value=010", "int32_value: must be a 32-bit integer"],
    ["int32_value=0x10", "int32_value: must be a 32-bit integer"],
    ["int32_value=%201", "int32_value: must be a 32-bit integer"],
    ["int32_value=1e3", "int32_value: must be a 32-bit integer"],
    ["int32_value=1.0", "int32_value: must be a 32-bit integer"],
    ["int32_value=", "int32_value: must be a 32-bit integer"],
    ["optional_int32=", "optional_int32: must be a 32-bit integer"],
    ["int64_value=9223372036854775808", "int64_value: must be a 64-bit integer"],
    ["uint64_value=18446744073709551616", "uint64_value: must be a 64-bit integer, 0 or more"],
    ["fixed32_value=4294967296", "fixed32_value: must be a 32-bit integer, 0 or more"],
    ["float_value=3.5e38", "float_value: must be a number"],
    ["double_value=1e400", "double_value: must be a number"],
    ["double_value=.5", "double_value: must be a number"],
    ["double_value=inf", "double_value: must be a number"],
    ["bool_value=1", "bool_value: must be true or false"],
    ["bool_value=TRUE", "bool_value: must be true or false"],
    ["enum_value=y", "enum_value: must be one of X, Y, Z"],
    ["enum_value=01", "enum_value: must be one of X, Y, Z"],
    ["enum_value=2147483648", "enum_value: must be one of X, Y, Z"],
    ["bytes_value=a-%2F", "bytes_value: must be bytes in base64"],
    ["bytes_value=YQ%3D", "bytes_value: must be bytes in base64"],
    ["bytes_value=a", "bytes_value: must be bytes in base64"],
    ["string_value=1&string_value=1", "string_value: set more than once"],
    ["string_value=1&int32_value=1&stringValue=2", "string_value: set more than once"],
    ["custom_name=1&kebab-name=2", "custom_name: set more than once"],
    ["nested.string_value=1&nested.stringValue=2", "nested.string_value: set more than once"],
    ["map_value[a]=1&map_value[a]=2", "map_value[a]: has a repeated key"],
    [
      "oneof_string_value=a&oneof_nested.string_value=b",
      "oneof_nested.string_value: oneofStringValue of the same oneof is already set",
    ],
    ["nested=a", "nested: is a message; name one of its fields"],
    ["repeated_nested.string_value=a", "repeated_nested: can't be set by a query"],
    ["repeated_nested={}", "repeated_nested: can't be set by a query"],
    ["repeated_value[]=a", "repeated_value: is a list: repeat the name without brackets for each item"],
    ["string_value[a]=a", "string_value: is not a map, so it has no keys"],
    ["map_value.a=1", "map_value: is a map: name one entry, name[key]"],
    ["map_value[a=1", "map_value: must be named as one entry, name[key]"],
    ["map_value[a]b=1", "map_value: must be named as one entry, name[key]"],
    ["map_value=hello", "map_value: must be sent as entries, name[key]=value, or as a JSON object"],
    ['map_value={"a":1}', "map_value.a: must be a string"],
    ["map_value2[a]=x", "map_value2[a]: must be a 32-bit integer"],
    ["map_value15[1]=x", "map_value15: the key must be true or false"],
    ["map_value[__proto__]=x&map_value[__proto__]=y", "map_value[__proto__]: has a repeated key"],
    ["any_value=1", "any_value: can't be set by a query"],
    ["any_value.type_url=1", "any_value: can't be set by a query"],
    ["struct_value=1", "struct_value: must be a JSON object"],
    ["struct_value={", "struct_value: must be a JSON object"],
    ['struct_value={"a":1,"a":2}', "struct_value: must be a JSON object"],
    ["struct_value.a=1", "struct_value: has no fields"],
    ["struct_value_value=hello", "struct_value_value: must be a JSON value"],
    ["list_value={}", "list_value: must be a JSON array"],
    ["timestamp_value.seconds=1", "timestamp_value: has no fields"],
    ["timestamp_value=2021-01-01T00:00:00+02:00", `timestamp_value: must be ${expectedTime}`],
    ["timestamp_value=null", "timestamp_value: must be a time as in RFC 3339, such as 2024-02-29T12:00:00Z"],
    ["timestamp_value=2021-02-30T00:00:00Z", expect.stringMatching(/^timestamp_value: must be a time/)],
    ["timestamp_value=2021-01-01T24:00:00Z", expect.stringMatching(/^timestamp_value: must be a time/)],
    ["timestamp_value=0000-01-01T00:00:00Z", expect.stringMatching(/^timestamp_value: must be a time/)],
    ["timestamp_value=0001-01-01T00:00:00%2B01:00", expect.stringMatching(/^timestamp_value: must be a time/)],
    ["duration_value=1", "duration_value: must be a duration in seconds, such as 1.5s"],
    ["duration_value=1.0000000001s", "duration_value: must be a duration in seconds, such as 1.5s"],
    ["duration_value=315576000001s", "duration_value: must be a duration in seconds, such as 1.5s"],
    ["fieldmask_value=a,,b", "fieldmask_value: must be names of fields, separated by commas"],
    ["string_value=%zz", "the query is not valid percent-encoded UTF-8"],
    ["string_value=%ff", "the query is not valid percent-encoded UTF-8"],
    ["string_value=\u00ff", "the query is not valid percent-encoded UTF-8"],
    ["string_value=\u{1f600}", "the query is not valid percent-encoded UTF-8"],
    ["%zz=1", "the query is not valid percent-encoded UTF-8"],
    ["=1", expect.stringMatching(/^: unknown parameter; the parameters are double_value, float_value, .*, …$/)],
    [".string_value=1", expect.stringMatching(/^\.string_value: unknown parameter; the parameters are /)],
    ["nested.=1", expect.stringMatching(/^nested\.: unknown parameter; the parameters are /)],
    ["__proto__=1", expect.stringMatching(/^__proto__: unknown parameter; the parameters are /)],
    ["constructor=1", expect.stringMatching(/^constructor: unknown parameter; the parameters are /)],
    ["nested.toString=1", expect.stringMatching(/^nested\.toString: unknown parameter; the parameters are /)],
    ["$alt=json", expect.stringMatching(/^\$alt: unknown parameter; the parameters are /)],
    [`${"a".repeat(1000)}=1`, expect.stringMatching(/^a{100}…: unknown parameter; the parameters are /)],
    [`${"nested.".repeat(1000)}string_value=1`, "a parameter's name is nested deeper than 100 levels"],
  ])("%s is a request error", async (text, message) => {
    expect(await query(text)).toEqual({ status: 400, body: { code: "invalid_argument", message } });
  });

  test("unknown parameters can be ignored, and create no messages", async () => {
    const text = "fields=a&nested.x=1&nested..string_value=1&$alt=json&String_Value=1&__proto__=1&string_value=x";
    expect(await query(text, { unknownQuery: "ignore" })).toEqual({ status: 200, body: { stringValue: "x" } });
  });
});

test("an ignored parameter must be encoded correctly", async () => {
  expect(await query("x=%zz", { unknownQuery: "ignore" })).toMatchObject({ status: 400 });
});
