import { create, fromJsonString, type MessageInitShape } from "@bufbuild/protobuf";
import { UninterpretedOptionSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { QueryMsgSchema } from "../gen/t/v1/vectors_pb.ts";
import { AnysService } from "../gen/gatewaytest/v1/anys_pb.ts";
import { createJsonCheck } from "../../src/index.ts";
import { createMethod } from "../service.ts";

const check = createJsonCheck(createMethod(QueryMsgSchema, {}), 100);

describe("the text that is to be read", () => {
  test("is what was sent", () => {
    const text = '{ "int64Value" : 9007199254740991, "enumValue":"Z" }';
    expect(check(Buffer.from(text))).toBe(text);
  });

  test("is what was sent, but 64-bit integers beyond 2^53 are strings", () => {
    const text = (first: string, last: string): string =>
      `{ "stringValue":"ü 9007199254740993", "fieldmaskValue":"a__b", "doubleValue":-0, "int64Value": ${first},\n` +
      `"structValue":{"a":[-0,9007199254740993]}, "nested":{"doubleValue":9007199254740993}, "repeatedWrapper":[1,${last}] }`;
    const [first, last] = ["-9007199254740993", "18446744073709551615"];
    expect(check(Buffer.from(text(first, last)))).toBe(text(`"${first}"`, `"${last}"`));
  });

  test.each<[text: string, message: MessageInitShape<typeof QueryMsgSchema>]>([
    ['{"int64Value":9223372036854775807}', { int64Value: 2n ** 63n - 1n }],
    ['{"int64_value":-9007199254740993}', { int64Value: -(2n ** 53n) - 1n }],
    ['{"repeatedWrapper":[18446744073709551615]}', { repeatedWrapper: [{ value: 2n ** 64n - 1n }] }],
    [
      '{"nested":{"uint64Value":18446744073709551615},"structValue":{"a":9007199254740993},"doubleValue":1e300}',
      { nested: { uint64Value: 2n ** 64n - 1n }, structValue: { a: 2 ** 53 }, doubleValue: 1e300 },
    ],
    [
      '{"int64Value":9007199254740993,"enumValue":"Z","mapValue":{"a":"b"},"wrapperBoolValue":false}',
      { int64Value: 2n ** 53n + 1n, enumValue: 2, mapValue: { a: "b" }, wrapperBoolValue: false },
    ],
  ])("keeps integers beyond 2^53: %s", (text, message) => {
    expect(fromJsonString(QueryMsgSchema, check(Buffer.from(text)))).toEqual(create(QueryMsgSchema, message));
  });
});

test("a required field may be missing beside an integer beyond 2^53", () => {
  const checkOption = createJsonCheck(createMethod(UninterpretedOptionSchema, {}), 100);
  const text = '{"name":[{"isExtension":true}],"positiveIntValue":';
  expect(checkOption(Buffer.from(`${text}9007199254740993}`))).toBe(`${text}"9007199254740993"}`);
});

test.each([
  ['{"int64Value":9223372036854775808}', "int64Value: must be a 64-bit integer"],
  ['{"int32Value":"x"}', "int32Value: must be a 32-bit integer"],
  ['{"a":1,"a":2}', "a: duplicate key"],
])("%s is refused", (text, message) => {
  expect(() => check(Buffer.from(text))).toThrow(new ConnectError(message, Code.InvalidArgument).message);
});

test("an Any is read by the mapping alone, not as HTTP spells its values", () => {
  const checkAny = createJsonCheck(AnysService.method.echoParcel, 100);
  const read = (item: object) => (): string => checkAny(Buffer.from(JSON.stringify({ item })));
  const thing = "type.googleapis.com/gatewaytest.v1.Thing";
  expect(read({ "@type": thing, speed: "SPEED_FAST" })).not.toThrow();
  expect(read({ "@type": thing, speed: "fast" })).toThrow("item.speed: must be one of");
  expect(read({ "@type": "x/none.None" })).toThrow("item['@type']: must name a known type, not x/none.None");
});
