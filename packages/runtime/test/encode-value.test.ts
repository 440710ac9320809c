import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { describeType, ValueEncoder } from "../src/child/encode-value.ts";

const mb = 1024 * 1024;

function encode(value: unknown, maxBytes = mb) {
  return new ValueEncoder(maxBytes).encode(value);
}

function explode(): never {
  throw new Error("code of a flow was executed");
}

const shared = { a: 1 };

test.each<[string, unknown, unknown]>([
  ["JSON", { a: [1, "two", null, true, { b: -0.5 }] }, { a: [1, "two", null, true, { b: -0.5 }] }],
  ["undefined, which JSON leaves out", { a: undefined, b: [undefined] }, { b: [null] }],
  ["a date", new Date(0), "1970-01-01T00:00:00.000Z"],
  ["a buffer", Buffer.from([1, 2]), { type: "Buffer", data: [1, 2] }],
  [
    "an instance",
    new (class Point {
      x = 1;
    })(),
    { x: 1 },
  ],
  ["one object twice", [shared, shared], [shared, shared]],
  [
    "values of another realm",
    runInNewContext("({ a: [new Date(0), new Uint8Array([7])] })"),
    { a: ["1970-01-01T00:00:00.000Z", { type: "Buffer", data: [7] }] },
  ],
])("%s is complete", (_, value, expected) => {
  expect(encode(value)).toEqual({ value: expected, isTruncated: false });
});

const circular: Record<string, unknown> = {};
circular["self"] = circular;
const deep = JSON.parse(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`) as object;

test.each<[string, unknown, unknown]>([
  ["a function", { f: explode, g: () => {} }, { f: "[function]", g: "[function]" }],
  ["a symbol", Symbol("s"), "[symbol]"],
  ["a bigint", [5n, 2n ** 100_000n], ["5", "[bigint]"]],
  ["not a number", [Number.NaN, -Infinity], [null, null]],
  ["an invalid date", new Date(Number.NaN), null],
  ["a map and a set", [new Map(), new Set()], ["[map]", "[set]"]],
  ["an error", new Error("text"), "[error]"],
  ["another array of numbers", new Float64Array(2), "[typedarray]"],
  ["what contains itself", circular, { self: "[circular]" }],
  ["half a character", "\ud83d", "\ufffd"],
])("%s is replaced", (_, value, expected) => {
  const encoded = encode(value);
  expect(encoded.value).toEqual(expected);
  expect(encoded.isTruncated).toBe(typeof value !== "string");
});

test("no code of flows is executed", () => {
  const buffer = Buffer.from([1]);
  Object.defineProperty(buffer, "length", { get: explode });
  const hostile = {
    toJSON: explode,
    toString: explode,
    valueOf: explode,
    [Symbol.toPrimitive]: explode,
    [Symbol.iterator]: explode,
    get inner() {
      return explode();
    },
    proxy: new Proxy(
      {},
      { get: explode, ownKeys: explode, getOwnPropertyDescriptor: explode, getPrototypeOf: explode },
    ),
    array: Object.defineProperty([1], 0, { get: explode, enumerable: true }),
    date: Object.assign(new Date(0), { toISOString: explode, getTime: explode, toJSON: explode }),
    buffer,
  };
  expect(encode(hostile)).toEqual({
    value: {
      toJSON: "[function]",
      toString: "[function]",
      valueOf: "[function]",
      inner: "[getter]",
      proxy: "[proxy]",
      array: ["[getter]"],
      date: "1970-01-01T00:00:00.000Z",
      buffer: { type: "Buffer", data: [1] },
    },
    isTruncated: true,
  });
  expect(describeType(hostile.proxy)).toBe("proxy");
  expect(describeType(buffer)).toBe("buffer[1]");
});

test("names of prototypes are those of properties, except __proto__", () => {
  const value = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": 1, "prototype": 2}') as object;
  const encoded = encode(value);
  expect(JSON.stringify(encoded.value)).toBe('{"constructor":1,"prototype":2}');
  expect(encoded.isTruncated).toBe(true);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

test.each<[string, unknown]>([
  ["100,000 keys", Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`key ${index}`, index]))],
  ["a million items", Array.from({ length: 1_000_000 }, () => 1)],
  ["a sparse array", Object.assign([], { length: 2 ** 32 - 1 })],
  ["a long text", "🔑".repeat(mb)],
  ["a text that is longer in JSON", "\u0000".repeat(mb)],
  ["a long name", { ["x".repeat(2 * mb)]: 1 }],
  ["a large buffer", Buffer.alloc(2 * mb)],
  ["many large values", Array.from({ length: 100 }, () => "x".repeat(mb / 10))],
])("%s is cut, and small enough as JSON", (_, value) => {
  const encoded = encode(value);
  expect(encoded.isTruncated).toBe(true);
  expect(Buffer.byteLength(JSON.stringify(encoded.value))).toBeLessThanOrEqual(1.05 * mb);
});

test("nesting is limited to what messages can have", () => {
  const { value, isTruncated } = encode(deep);
  expect(isTruncated).toBe(true);
  const text = JSON.stringify(value);
  expect(text.split('"a"')).toHaveLength(41);
  expect(text).toContain('"[object]"');
});

test("several values share the limit", () => {
  const encoder = new ValueEncoder(1_000);
  expect(encoder.encode("x".repeat(900)).isTruncated).toBe(false);
  expect(encoder.isFull).toBe(false);
  expect(encoder.encode("x".repeat(900)).isTruncated).toBe(true);
  expect(encoder.isFull).toBe(true);
});

test.each<[unknown, string]>([
  ["Zoë", "string[3]"],
  [5, "number"],
  [null, "null"],
  [[1, 2], "array[2]"],
  [{}, "object"],
  [new Map(), "map"],
  [new Date(), "date"],
  [() => {}, "function"],
])("the type of %s is %s", (value, type) => {
  expect(describeType(value)).toBe(type);
});
