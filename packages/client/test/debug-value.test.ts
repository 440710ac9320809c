import { runInNewContext } from "node:vm";
import nodeRedUtil from "@node-red/util";
import { describe, expect, test } from "vitest";
import { formatDebugValue } from "../src/debug-value.ts";

/** Encodes a value as the debug node does, and as an event has it. */
function encode(payload: unknown): { readonly format: string; readonly value: string } {
  const { format, msg } = nodeRedUtil.util.encodeObject({ msg: payload }, { maxLength: 30 });
  return { format, value: typeof msg === "string" ? msg : (msg as { readonly data: string }).data };
}

const circular: { name: string; self?: unknown } = { name: "c" };
circular.self = circular;

const numbers = Array.from({ length: 32 }, (_, at) => at);
const shown = numbers.slice(0, 30).join(",");

const failure = Object.assign(new TypeError("broken", { cause: "a wire" }), { code: "E1" });
const named = `TypeError: broken (E1)`;

// Shown alone, and as a property of an object.
const table: readonly (readonly [string, unknown, string, string])[] = [
  ["a string", "text", "text", `{"a":"text"}`],
  ["a string that is JSON", "[1, 2]", "[1, 2]", `{"a":"[1, 2]"}`],
  ["a long string", "x".repeat(40), `${"x".repeat(30)}...`, `{"a":"${"x".repeat(30)}..."}`],
  ["a number", 1.5, "1.5", `{"a":1.5}`],
  ["NaN", Number.NaN, "NaN", `{"a":NaN}`],
  ["Infinity", Infinity, "Infinity", `{"a":Infinity}`],
  ["-Infinity", -Infinity, "-Infinity", `{"a":-Infinity}`],
  ["a BigInt", 2n ** 70n, "1180591620717411303424n", `{"a":1180591620717411303424n}`],
  ["a boolean", true, "true", `{"a":true}`],
  ["null", null, "null", `{"a":null}`],
  ["undefined", undefined, "undefined", `{"a":undefined}`],
  ["a function", () => 1, "[function]", `{"a":[function]}`],
  ["a regular expression", /r"/i, `/r"/i`, `{"a":/r"/i}`],
  ["an array", [1, "x"], `[1,"x"]`, `{"a":[1,"x"]}`],
  ["an array that was cut", numbers, `[${shown},… 2 more]`, `{"a":[${shown},… 2 more]}`],
  ["a typed array", new Uint16Array([1, 2]), "[1,2]", `{"a":[1,2]}`],
  [
    "a typed array that was cut",
    new Float32Array(numbers),
    `Float32Array [${shown},… 2 more]`,
    `{"a":Float32Array [${shown},… 2 more]}`,
  ],
  ["a buffer", Buffer.from("hi"), "<Buffer 68 69>", `{"a":<Buffer 68 69>}`],
  [
    "a buffer that was cut",
    Buffer.alloc(32),
    `<Buffer${" 00".repeat(15)} … 17 more bytes>`,
    `{"a":<Buffer${" 00".repeat(30)} … 2 more bytes>}`,
  ],
  ["a set", new Set([1, new Set()]), "Set(2) {1,Set(0) {}}", `{"a":Set(2) {1,Set(0) {}}}`],
  ["a set that was cut", new Set(numbers), `Set(32) {${shown},… 2 more}`, `{"a":Set(32) {${shown},… 2 more}}`],
  ["a map", new Map([["k", 5n]]), `Map(1) {"k" => 5n}`, `{"a":Map(1) {"k" => 5n}}`],
  ["an empty map", new Map(), `Map(0) {}`, `{"a":Map(0) {}}`],
  ["an empty object", {}, "{}", `{"a":{}}`],
  ["a circular object", circular, `{"name":"c","self":"[Circular ~]"}`, `{"a":{"name":"c","self":"[Circular ~.a]"}}`],
  [
    "a request",
    { _req: 1, _res: 1 },
    `{"_req":[internal],"_res":[internal]}`,
    `{"a":{"_req":[internal],"_res":[internal]}}`,
  ],
];

describe("a debug message shows", () => {
  test.each(table)("%s", (_, payload, alone, nested) => {
    expect(formatDebugValue(encode(payload))).toBe(alone);
    expect(formatDebugValue(encode({ a: payload }))).toBe(nested);
  });

  test("a date", () => {
    const date = new Date(0);
    expect(formatDebugValue(encode(date))).toBe(date.toString());
    expect(formatDebugValue(encode({ a: date }))).toBe(`{"a":"1970-01-01T00:00:00.000Z"}`);
  });

  test("an error with its stack, code and cause, and one in an object by its message", () => {
    expect(formatDebugValue(encode(failure))).toBe(`${named}\n${failure.stack}\ncause: a wire`);
    expect(formatDebugValue(encode({ a: failure }))).toBe(`{"a":[${named}]}`);
    const plain = new RangeError("far");
    expect(formatDebugValue(encode(plain))).toBe(plain.stack);
    // As those of function nodes.
    const foreign = runInNewContext(`new Error("inside")`) as Error;
    expect(formatDebugValue(encode({ a: foreign }))).toBe(`{"a":[Error: inside]}`);
  });

  test("several levels with indentation", () => {
    const value = encode({ a: new Map([["k", [undefined, 1]]]), b: [], c: new Set([1]) });
    expect(formatDebugValue(value, 2)).toBe(`{
  "a": Map(1) {
    "k" => [
      undefined,
      1
    ]
  },
  "b": [],
  "c": Set(1) {
    1
  }
}`);
  });

  test("what was cut, is forged or is too deep as it is", () => {
    const deep = "[".repeat(50_000) + "]".repeat(50_000);
    for (const value of [`{"a":{"__enc__":tr`, "[not JSON]", deep]) {
      expect(formatDebugValue({ format: "Object", value })).toBe(value);
    }
    expect(formatDebugValue({ format: "Object", value: `{"__enc__":true}` })).toBe("[undefined]");
    expect(formatDebugValue({ format: "set[1]", value: `{"__enc__":true,"type":"set"}` })).toBe("Set(0) {}");
    expect(formatDebugValue({ format: "error", value: `{"__enc__":true,"type":"error"}` })).toBe("error");
  });
});
