import fc from "fast-check";
import { expect, test } from "vitest";
import { Fault } from "../../src/transcoding/index.ts";
import { parseJson } from "../../src/transcoding/json/parse.ts";

const parse = (text: string | Uint8Array, maxDepth = 8): unknown =>
  parseJson(typeof text === "string" ? Buffer.from(text) : text, maxDepth);

const faultOf = (text: string | Uint8Array, maxDepth?: number): string => {
  try {
    parse(text, maxDepth);
  } catch (error) {
    if (error instanceof Fault) {
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
  ['{"a":', `${bad} it ends too early (line 1, column 6)`],
  ['{"a":1', `${bad} it ends too early (line 1, column 7)`],
  ['{"a":1,}', `${bad} a key in double quotes was expected (line 1, column 8)`],
  ["[1,]", `${bad} a value was expected (line 1, column 4)`],
  ["[1 2]", `${bad} ',' or ']' was expected (line 1, column 4)`],
  ['{"a":1 "b":2}', `${bad} ',' or '}' was expected (line 1, column 8)`],
  ["[1]\n[2]", `${bad} more follows behind the end of the document (line 2, column 1)`],
  ["{a:1}", `${bad} a key in double quotes was expected (line 1, column 2)`],
  ["['a']", `${bad} a value was expected (line 1, column 2)`],
  ["[01]", `${bad} ',' or ']' was expected (line 1, column 3)`],
  ["[NaN]", `${bad} a value was expected (line 1, column 2)`],
  ["[+1]", `${bad} a value was expected (line 1, column 2)`],
  ['["a\tb"]', `${bad} a string that does not end, or has a control character or an unknown escape (line 1, column 4)`],
  ['["\\x"]', `${bad} a string that does not end, or has a control character or an unknown escape (line 1, column 3)`],
  ['["a', `${bad} a string that does not end, or has a control character or an unknown escape (line 1, column 4)`],
  ["\ufeff[]", `${bad} a value was expected (line 1, column 1)`],
  ['{"a":{"b":1,"b":2}}', "400 invalid_json: a.b: this key stands twice in its object"],
  ['[{"b":1,"\\u0062":2}]', "400 invalid_json: [0].b: this key stands twice in its object"],
  ['{"":1,"":2}', "400 invalid_json: ['']: this key stands twice in its object"],
  ['[0,{"__proto__":1}]', "400 invalid_json: [1].__proto__: this key is not allowed"],
  ['{"\\u005f_proto__":{}}', "400 invalid_json: __proto__: this key is not allowed"],
  ['{"a":["\\ud800"]}', "400 invalid_json: a[0]: a string with a lone surrogate"],
  ['["\\uDC00x"]', "400 invalid_json: [0]: a string with a lone surrogate"],
  ['{"\\ud800":1}', "400 invalid_json: ['\ud800']: the key has a lone surrogate"],
  ['{"a":1e400}', "400 invalid_json: a: a number beyond the range of a double"],
  ["[[[[[[[[[1]]]]]]]]]", "400 undefined: [0][0][0][0][0][0][0][0]: nested deeper than 8 levels"],
])("refuses %j", (text, fault) => {
  expect(faultOf(text)).toBe(fault);
});

test.each<[text: string]>([
  ['{"a":":","b":"{[\\"","c":[{"d":null},{"d":true}]}'],
  [' [ 1 , -0.5e-3 , "\\ud83d\\ude00" , "\\\\" , "\\\\u005f" ] '],
  ['{"__proto":1,"constructor":2,"toString":{"a":1},"a":{"a":1}}'],
  ["[[[[[[[[]]]]]]]]"],
  ['"text"'],
  ["null"],
])("takes %j as JSON.parse does", (text) => {
  expect(parse(text)).toEqual(JSON.parse(text));
});

test("refuses bytes that are no UTF-8", () => {
  expect(faultOf(Uint8Array.of(0x22, 0xff, 0x22))).toBe("400 invalid_json: the body is not valid UTF-8");
  expect(faultOf(Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22))).toBe("400 invalid_json: the body is not valid UTF-8");
});

test("repeats no value in what it says", () => {
  expect(faultOf('{"password":"hunter2" "x"')).not.toContain("hunter2");
  expect(faultOf('{"password":"hunter2\n"}')).not.toContain("hunter2");
});

test("survives depth and length that would exhaust a stack", () => {
  expect(faultOf("[".repeat(5_000_000), 100)).toMatch(/nested deeper than 100 levels$/);
  expect(faultOf(`["${"\\n".repeat(3_000_000)}`)).toMatch(/a string that does not end/);
});

test("takes each document that JSON.stringify writes, and gives the same value", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (text) => {
      // fast-check may make the one key that is refused.
      fc.pre(!text.includes("__proto__") && !/\\ud[89a-f]/i.test(text));
      expect(parse(text)).toEqual(JSON.parse(text));
    }),
  );
});

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
    { numRuns: 3000 },
  );
});
