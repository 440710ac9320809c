import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestError } from "../../src/index.ts";
import { parseJson } from "../../src/json/parse.ts";
import { hasEscapedKey, parseJsonText } from "../../src/json/parse-json-text.ts";
import { scanStructure } from "../../src/json/structural-scan.ts";
import { WideInteger } from "../../src/json/wide-integer.ts";
import { codePoint } from "../code-point.ts";
import { propertyRuns } from "../property-runs.ts";

const parse = (text: string | Uint8Array, maxDepth = 8): unknown =>
  parseJson(typeof text === "string" ? Buffer.from(text) : text, maxDepth);

const faultOf = (text: string | Uint8Array, maxDepth?: number): string => {
  try {
    parse(text, maxDepth);
  } catch (error) {
    if (error instanceof RequestError) {
      return `${error.status} ${error.reason}: ${error.message}`;
    }
    throw error;
  }
  return "accepted";
};

const bad = "400 invalid_json: the body is not valid JSON:";

test.each<[text: string, fault: string]>([
  ["", "400 invalid_json: the body is empty; a JSON document was expected"],
  ["  \n", "400 invalid_json: the body is empty; a JSON document was expected"],
  ["{", `${bad} a key in double quotes was expected (line 1, column 2)`],
  ['{"a"', `${bad} ':' was expected (line 1, column 5)`],
  ['{"a":', `${bad} unexpected end (line 1, column 6)`],
  ['{"a":1', `${bad} unexpected end (line 1, column 7)`],
  ['{"a":1,}', `${bad} a key in double quotes was expected (line 1, column 8)`],
  ["[1,]", `${bad} a value was expected (line 1, column 4)`],
  ["[1 2]", `${bad} ',' or ']' was expected (line 1, column 4)`],
  ['{"a":1 "b":2}', `${bad} ',' or '}' was expected (line 1, column 8)`],
  ["[1]\n[2]", `${bad} unexpected text after the end of the document (line 2, column 1)`],
  ["{a:1}", `${bad} a key in double quotes was expected (line 1, column 2)`],
  ["['a']", `${bad} a value was expected (line 1, column 2)`],
  ["[01]", `${bad} ',' or ']' was expected (line 1, column 3)`],
  ["[NaN]", `${bad} a value was expected (line 1, column 2)`],
  ["[+1]", `${bad} a value was expected (line 1, column 2)`],
  ["[-]", `${bad} a value was expected (line 1, column 2)`],
  ["[1.]", `${bad} ',' or ']' was expected (line 1, column 3)`],
  ["[1.5e]", `${bad} ',' or ']' was expected (line 1, column 5)`],
  ["[true,nul]", `${bad} a value was expected (line 1, column 7)`],
  ["[[1],]", `${bad} a value was expected (line 1, column 6)`],
  ['["a\tb"]', `${bad} a string is not terminated, or has a control character or an invalid escape (line 1, column 4)`],
  ['["\\x"]', `${bad} a string is not terminated, or has a control character or an invalid escape (line 1, column 3)`],
  ['["a', `${bad} a string is not terminated, or has a control character or an invalid escape (line 1, column 4)`],
  ["\ufeff[]", `${bad} a value was expected (line 1, column 1)`],
  ['{"a":{"b":1,"b":2}}', "400 invalid_json: a.b: duplicate key"],
  ['[{"b":1,"\\u0062":2}]', "400 invalid_json: [0].b: duplicate key"],
  ['{"":1,"":2}', "400 invalid_json: ['']: duplicate key"],
  [`{"it's":1,"it's":2}`, String.raw`400 invalid_json: ['it\'s']: duplicate key`],
  ['{"a":{"\\"\\\\\\n":1,"\\"\\\\\\n":2}}', String.raw`400 invalid_json: a['"\\\n']: duplicate key`],
  [`{"${"n".repeat(65)}":1e400}`, `400 invalid_json: ['${"n".repeat(64)}…']: a number beyond the range of a double`],
  ['{"__proto__":1,"\\u005f_proto__":2}', "400 invalid_json: __proto__: duplicate key"],
  ['{"a":["\\ud800"]}', "400 invalid_json: a[0]: a string with a lone surrogate"],
  ['["\\uDC00x"]', "400 invalid_json: [0]: a string with a lone surrogate"],
  ['["\\ud83d\\ude00",{"a":"\\ude00\\ud83d"}]', "400 invalid_json: [1].a: a string with a lone surrogate"],
  ['{"\\ud800":1}', "400 invalid_json: ['\\ud800']: the key has a lone surrogate"],
  ['{"a":1e400}', "400 invalid_json: a: a number beyond the range of a double"],
  ["[1,-1e309]", "400 invalid_json: [1]: a number beyond the range of a double"],
  [`[${"9".repeat(400)}]`, "400 invalid_json: [0]: a number beyond the range of a double"],
  ["[[[[[[[[[1]]]]]]]]]", "400 undefined: [0][0][0][0][0][0][0][0]: nested deeper than 8 levels"],
])("refuses %j", (text, fault) => {
  expect(faultOf(text)).toBe(fault);
});

test.each<[text: string]>([
  ['{"a":":","b":"{[\\"","c":[{"d":null},{"d":true}]}'],
  [' [ 1 , -0.5e-3 , "\\ud83d\\ude00" , "\\\\" , "\\\\u005f" ] '],
  ['{"__proto":1,"constructor":2,"toString":{"a":1},"a":{"a":1}}'],
  ['[{"__proto__":{"a":1},"b":2},{"\\u005f_proto__":null}]'],
  ['{"\\uD83D\\uDE00":["C:\\\\ud83d","\\ud83d\\ude00 \\\\\\ud83d\\ude00"]}'],
  ["[9007199254740993,[]]"],
  ["[[[[[[[[]]]]]]]]"],
  ['"text"'],
  ["null"],
])("takes %j as JSON.parse does", (text) => {
  expect(JSON.stringify(parse(text))).toBe(JSON.stringify(JSON.parse(text)));
});

test.each([
  ['[0,{"__proto__":1}]', "[1].__proto__"],
  ['{"\\u005f_proto__":{}}', "__proto__"],
])("refuses __proto__ with the option prototypeKeys: %s", (text, path) => {
  expect(() => parseJson(Buffer.from(text), 8, { prototypeKeys: "reject" })).toThrow(
    new RequestError(400, "invalid_json", `${path}: this key is not allowed`, { repeatsInput: true }),
  );
});

test("refuses bytes that are no UTF-8", () => {
  expect(faultOf(Uint8Array.of(0x22, 0xff, 0x22))).toBe("400 invalid_json: the body is not valid UTF-8");
  expect(faultOf(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22))).toBe("400 invalid_json: the body is not valid UTF-8");
});

test("repeats no value in its message", () => {
  expect(faultOf('{"password":"hunter2" "x"')).not.toContain("hunter2");
  expect(faultOf('{"password":"hunter2\n"}')).not.toContain("hunter2");
});

test("survives depth and length that would exhaust a stack", () => {
  expect(faultOf("[".repeat(5_000_000), 100)).toMatch(/nested deeper than 100 levels$/);
  expect(faultOf(`["${"\\n".repeat(3_000_000)}`)).toMatch(/a string is not terminated/);
});

test("takes each document that JSON.stringify writes, and gives the same value", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (text) => {
      fc.pre(!/\\ud[89a-f]/i.test(text));
      expect(parse(text)).toEqual(JSON.parse(text));
    }),
  );
});

describe("an exact document", () => {
  const digitsOf = (_key: string, item: unknown): unknown => (item instanceof WideInteger ? item.digits : item);
  const exact = (text: string): unknown =>
    JSON.parse(JSON.stringify(parseJson(Buffer.from(text), 8, { exact: true }), digitsOf));
  /** The same by the reviver of JSON.parse, which is slow. */
  const expected = (text: string): unknown =>
    JSON.parse(text, (_key, item: unknown, context?: { source?: string }) => {
      const source = context?.source ?? "";
      return typeof item === "number" && !Number.isSafeInteger(item) && /^-?\d+$/.test(source) ? source : item;
    });

  test("has the digits of integers that a double can't hold", () => {
    expect(exact("9007199254740993")).toBe("9007199254740993");
    expect(exact('{"a":[-9223372036854775808,9007199254740991]}')).toEqual({
      a: ["-9223372036854775808", 9_007_199_254_740_991],
    });
  });

  test.each([
    ["[-9007199254740993 , 9007199254740991,9007199254740992,-9007199254740992]"],
    ["[18446744073709551615,184467440737095516150]"],
    ['{"ü😀":"é","a":9223372036854775807}'],
    ['{"2":9223372036854775807,"1":[{"a":-9223372036854775808}]}'],
    ['["9223372036854775807,",9223372036854775806,":9223372036854775807"]'],
    ['["\\"9223372036854775807",9223372036854775806,"\\\\",9223372036854775805]'],
    ['["\\ud83d\\ude000","\\udbff\\udc000",9223372036854775807]'],
    ["[9007199254740993.5,9.223372036854775807,1e20,1e300,92233720368547758070e1,9007199254740993]"],
    ["[1e-0000000000000000000001,1.5E+00000000000000000001,9007199254740993]"],
  ])("%s", (text) => {
    expect(exact(text)).toEqual(expected(text));
  });

  test.each([
    ["9223372036854775807.0", "9223372036854775807"],
    ["-9223372036854775808e0", "-9223372036854775808"],
    ["922337203685477580.7E+1", "9223372036854775807"],
    ["9223372036854775807000e-3", "9223372036854775807"],
    ["1.8446744073709551615e19", "18446744073709551615"],
    ["1e18", "1000000000000000000"],
  ])("has the digits of %s, whatever its form", (text, digits) => {
    expect(exact(`[${text}]`)).toEqual([digits]);
  });

  test("is any that JSON can say", () => {
    const { value: values } = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 3 },
        fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 64n - 1n), fc.bigInt(2n ** 53n - 9n, 2n ** 53n + 9n)).map(raw),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.string({ unit: codePoint }),
        fc.array(tie("value"), { maxLength: 4 }),
        fc.dictionary(fc.string({ unit: codePoint }), tie("value"), { maxKeys: 4 }),
      ),
    }));
    fc.assert(
      fc.property(values, (value) => {
        const text = JSON.stringify(value);
        expect(exact(text)).toEqual(expected(text));
      }),
    );
  });
});

/** An integer that JSON.stringify writes as it is. */
function raw(value: bigint): unknown {
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(String(value));
}

test("throws nothing but faults, whatever the bytes", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 40 }),
        fc.stringMatching(/^[[\]{},:"\\u0deE+\-a ]{0,30}$/).map((text) => Buffer.from(text)),
      ),
      (bytes) => {
        const verdict = faultOf(bytes, 4);
        if (verdict === "accepted") {
          JSON.parse(Buffer.from(bytes).toString());
        }
      },
    ),
    propertyRuns(3000),
  );
});

// JSON.parse of Node 26.10 confuses these keys with keys of documents that were parsed before.
test.each([
  [String.raw`{"q":1,"\\":1}`, String.raw`{"q":1,"\u0007":1}`, "\x07"],
  [String.raw`{"r":1,"a\\":1}`, String.raw`{"r":1,"a\n":1}`, "a\n"],
  [String.raw`{"s":1,"\\n":1}`, String.raw`{"s":1,"\nX":1}`, "\nX"],
  [String.raw`{"t":12345678901234567890,"\\":1}`, String.raw`{"t":12345678901234567890,"\"":1}`, '"'],
])("reads the keys of %s and then of %s", (earlier, later, key) => {
  parseJson(Buffer.from(earlier), 8, { exact: true });
  expect(Object.keys(parseJson(Buffer.from(later), 8, { exact: true }) as object).at(-1)).toBe(key);
  JSON.parse(earlier);
  expect(Object.keys(parseJson(Buffer.from(later), 8, { exact: true }) as object).at(-1)).toBe(key);
});

test("a text with escaped keys is read correctly too", () => {
  parseJsonText(String.raw`{"u":1,"\\":1}`);
  JSON.parse(String.raw`{"u":1,"\\":1}`);
  expect(parseJsonText(String.raw`{"u":1,"\u0007":{"\n":"\n"}}`)).toEqual({ u: 1, "\x07": { "\n": "\n" } });
  expect(parseJsonText(String.raw`{"u":"\n"}`)).toEqual({ u: "\n" });
  expect(() => parseJsonText(String.raw`{"\x":1}`)).toThrow(SyntaxError);
  expect(() => parseJsonText('{"u"')).toThrow(SyntaxError);
});

test.each([
  [String.raw`{"\u0061":1,"a":2,"\u0061":3}`, '{"a":3}'],
  [String.raw`{"a":1,"b":2,"\u0061":3}`, '{"a":3,"b":2}'],
  [String.raw`[{"\u0061":{"\n":1,"b":{"c":[{"\n":1}]},"\n":2}}]`, String.raw`[{"a":{"\n":2,"b":{"c":[{"\n":1}]}}}]`],
  [String.raw`{"__pr\u006fto__":{"\u0061":1},"__proto__":{"b":{"\n":2}}}`, String.raw`{"__proto__":{"b":{"\n":2}}}`],
])("the last one of repeated keys counts, however they are escaped, as for JSON.parse: %s", (text, json) => {
  expect(JSON.stringify(parseJsonText(text))).toBe(json);
});

test.each<[text: string, has: boolean]>([
  [String.raw`{"a":"\"b\":","c":["\\"]}`, false],
  [String.raw`["\\\"","\"",{"a\"":1}]`, true],
  [String.raw`{"a\\" : 1}`, true],
  [String.raw`{"é😀":"\u00e9\"","b":"\\\\"}`, false],
  ['"\\', false],
  ['["\\"', false],
])("%s has an escaped key: %s", (text, has) => {
  expect(hasEscapedKey(text)).toBe(has);
  expect(hasEscapedKey(Buffer.from(text).toString("latin1"))).toBe(has);
});

test("escaped keys are found in each document as by the structural scan", () => {
  const text = fc.string({ unit: fc.constantFrom("\\", '"', ":", "a", "é", "\n", " ") });
  const { value: values } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof({ maxDepth: 3 }, text, fc.array(tie("value")), fc.dictionary(text, tie("value"))),
  }));
  fc.assert(
    fc.property(values, fc.constantFrom(undefined, 1), (value, space) => {
      const json = JSON.stringify(value, undefined, space);
      expect(hasEscapedKey(json)).toBe(scanStructure(Buffer.from(json)).hasEscapedKey);
    }),
  );
});

test("a document with escaped keys has the same values as without", () => {
  const values = fc.jsonValue().filter((value) => !JSON.stringify(value).includes("__proto__"));
  fc.assert(
    fc.property(values, fc.string(), (value, key) => {
      const text = `[{"\\u0061":1,${JSON.stringify(`b${key}`)}:${JSON.stringify(value)}}]`;
      // As text, in which -0 is 0.
      expect(JSON.stringify(parse(text, 100))).toBe(JSON.stringify([{ a: 1, [`b${key}`]: value }]));
    }),
  );
});
