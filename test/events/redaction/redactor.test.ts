import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { Redactor, compileValues, valuesOf } from "../../../src/events/redaction/redactor.ts";
import { credentials } from "../../../packages/runtime/test/builders.ts";

function redactorOf(...sets: readonly Readonly<Record<string, Readonly<Record<string, string>>>>[]): Redactor {
  return new Redactor([compileValues(valuesOf(sets.map(credentials)))]);
}

const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nAQEFAASCBKcwggSj\n-----END KEY-----";
const redactor = redactorOf(
  {
    a: { password: "hunter2", user: "ada", token: `quo"ted\\ & 'more'`, long: "hunter2-and-more", empty: "" },
    b: { key, name: "ü/ß?", file: "from a file\n" },
  },
  { a: { password: "before" } },
);

test.each([
  ["login with hunter2 failed", "login with [redacted] failed"],
  ["hunter2hunter2", "[redacted][redacted]"],
  ["hunter2-and-more, hunter2-and-mo", "[redacted], [redacted]-and-mo"],
  ["it was before", "it was [redacted]"],
  ["it is from a file", "it is [redacted]"],
  ["hunter", "hunter"],
  ["ada and hunter", "ada and hunter"],
  ["", ""],
  [`key ${key}`, "key [redacted]"],
  ["only MIIEvQIBADANBgkq of it", "only [redacted] of it"],
  [JSON.stringify({ key }), '{"key":"[redacted]"}'],
  ["ü hunter2 ß", "ü [redacted] ß"],
])("the values of credentials are replaced in %j", (text, expected) => {
  expect(redactor.redact(text, false)).toBe(expected);
});

test("overlapping values are replaced as a whole", () => {
  expect(redactorOf({ a: { one: "secret-1", other: "1-and-more" } }).redact("a secret-1-and-more!", false)).toBe(
    "a [redacted]!",
  );
});

const jsonOf = (value: string): string => JSON.stringify({ password: value });
const urlEncoded = (value: string): string => new URLSearchParams({ password: value }).toString();
const base64 = (text: string, encoding: BufferEncoding = "base64"): string => Buffer.from(text).toString(encoding);

/** Each form of a value, and what is left of it. */
const forms: readonly (readonly [form: string, encode: (value: string) => string, left: string])[] = [
  ["as it is", (value) => `it is ${value}!`, "it is [redacted]!"],
  ["JSON", jsonOf, '{"password":"[redacted]"}'],
  ["JSON in JSON", (value) => JSON.stringify({ body: jsonOf(value) }), `{"body":"{\\"password\\":\\"[redacted]\\"}"}`],
  [
    "JSON in JSON in JSON",
    (value) => JSON.stringify(JSON.stringify(jsonOf(value))),
    JSON.stringify(JSON.stringify('{"password":"[redacted]"}')),
  ],
  ["JSON with escaped characters", (value) => `"${escapeUnits(value)}"`, '"[redacted]"'],
  ["what inspect prints", (value) => inspect({ password: `'"${value}` }), `{ password: \`'"[redacted]\` }`],
  ["percent-encoded", (value) => `?password=${encodeURIComponent(value)}&more`, "?password=[redacted]&more"],
  ["percent-encoded in lower case", (value) => encodeURIComponent(value).toLowerCase(), "[redacted]"],
  ["a form", (value) => `${urlEncoded(value)}&more=1`, "password=[redacted]&more=1"],
  ["JSON in a URL", (value) => encodeURIComponent(jsonOf(value)), "%7B%22password%22%3A%22[redacted]%22%7D"],
  ["Base64", (value) => `is ${base64(value)}!`, "is [redacted]!"],
  ["Base64 without padding", (value) => `is ${base64(value).replace(/=+$/, "")}!`, "is [redacted]!"],
  ["base64url", (value) => `is ${base64(value, "base64url")}!`, "is [redacted]!"],
  ["Base64 of what begins with one byte", (value) => base64(`:${value}`), "O[redacted]"],
  ["Base64 of what begins with two bytes", (value) => base64(`::${value}`), "Oj[redacted]"],
  ["Base64 of what begins with three bytes", (value) => base64(`a::${value}`), "YTo6[redacted]"],
  ["basic authentication", (value) => `Basic ${base64(`ada:${value}`)}`, "Basic YWRhO[redacted]"],
  ["Base64 in a URL", (value) => `?q=${encodeURIComponent(base64(value).replace(/=+$/, ""))}`, "?q=[redacted]"],
  ["hex", (value) => `is ${base64(value, "hex")}!`, "is [redacted]!"],
  ["hex in upper case", (value) => `is ${base64(value, "hex").toUpperCase()}!`, "is [redacted]!"],
  ["hex after another digit", (value) => `0${base64(value, "hex")}`, "0[redacted]"],
  ["hex in pairs", (value) => base64(value, "hex").match(/../g)?.join(":") ?? "", "[redacted]"],
  ["what inspect prints of a buffer", (value) => inspect(Buffer.from(value)), "<Buffer [redacted]>"],
  ["the JSON of a buffer", (value) => JSON.stringify(Buffer.from(value)), '{"type":"Buffer","data":[[redacted]]}'],
  [
    "the JSON of a buffer in lines",
    (value) => JSON.stringify(Buffer.from(`a${value}b`), undefined, 2),
    '{\n  "type": "Buffer",\n  "data": [\n    97,\n    [redacted],\n    98\n  ]\n}',
  ],
  [
    "what inspect prints of bytes",
    (value) => inspect(Uint8Array.from(Buffer.from(value))).replace(/^\w+\(\d+\) /, ""),
    "[\n  [redacted]\n]",
  ],
];

function escapeUnits(text: string): string {
  return Array.from(
    { length: text.length },
    (_, index) => `\\u${text.charCodeAt(index).toString(16).padStart(4, "0")}`,
  ).join("");
}

describe.each(["s3cr3t-value", `quo"te\\d & 'more'`, "pass+word/?=%", "grüße, 世界 😀", "12345678"])("%s", (value) => {
  const own = redactorOf({ a: { password: value } });

  test.each(forms)("%s", (_, encode, left) => {
    const text = encode(value);
    const redacted = own.redact(text, false);
    expect(redacted).toBe(left);
    expect(own.redact(redacted, false)).toBe(redacted);
  });

  test.each(forms)("%s: also if the text is cut within it", (_, encode) => {
    const text = encode(value);
    const [head = "", ...rest] = own.redact(text, false).split("[redacted]");
    const end = text.length - rest.join("").length;
    for (let length = head.length + Math.ceil(0.7 * (end - head.length)); length < end; length += 1) {
      expect(own.redact(text.slice(0, length), true)).toBe(`${head}[redacted]`);
      expect(own.redact(`${text.slice(0, length)}... (more)`, false)).toBe(`${head}[redacted]... (more)`);
    }
  });
});

test("a value at which the text was cut is replaced too", () => {
  expect(redactor.redact("login with hunte", true)).toBe("login with [redacted]");
  expect(redactor.redact("login with hunte", false)).toBe("login with hunte");
  expect(redactor.redact("login with hunte…, hunte... and hunte.", false)).toBe(
    "login with [redacted]…, [redacted]... and hunte.",
  );
});

test("a value whose last character was cut is replaced too", () => {
  const own = redactorOf({ a: { password: "secret😀and more" } });
  expect(own.redact("is secret\uFFFD", true)).toBe("is [redacted]");
});

test("values of three characters or less are kept, and so are texts without values", () => {
  const text = "ada wrote this";
  expect(redactor.redact(text, false)).toBe(text);
  expect(new Redactor([]).redact("hunter2", false)).toBe("hunter2");
});

test("words, numbers, addresses and times are kept", () => {
  const text = '2026-01-02T03:04:05.678Z [192, 168, 10] deadbeef /usr/lib/node_modules a+b=c 100% C:\\temp {"a":"\\n"}';
  expect(redactor.redact(text, true)).toBe(text);
});

test("finds what a search for each value would find", () => {
  // A few letters, so that values are prefixes, suffixes and parts of each other.
  const random = createRandom(7);
  const word = (length: number): string => Array.from({ length }, () => "abé"[random(3)]).join("");
  for (let round = 0; round < 200; round += 1) {
    const values = Array.from({ length: 1 + random(30) }, () => word(4 + random(6)));
    const text = word(60);
    const isSecret = Array.from(text, () => false);
    for (const value of values) {
      for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1)) {
        isSecret.fill(true, at, at + value.length);
      }
    }
    const own = new Redactor([compileValues(values)]);
    const kept = Array.from(text, (character, at) => (isSecret[at] === true ? "" : character)).join("");
    expect([values, text, own.redact(text, false).replaceAll("[redacted]", "")]).toEqual([values, text, kept]);
  }
});

function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
}
