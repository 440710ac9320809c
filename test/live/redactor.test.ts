import { expect, test } from "vitest";
import { Redactor, redactJson } from "../../src/live/redactor.ts";
import { credentials } from "../runtime/builders.ts";

const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nAQEFAASCBKcwggSj\n-----END KEY-----";
const redactor = new Redactor([
  credentials({
    a: { password: "hunter2", user: "ada", token: `quo"ted\\ & 'more'`, long: "hunter2-and-more", empty: "" },
    b: { key, name: "ü/ß?" },
  }),
  credentials({ a: { password: "before" } }),
]);

test.each([
  ["login with hunter2 failed", "login with [redacted] failed"],
  ["hunter2hunter2", "[redacted][redacted]"],
  ["hunter2-and-more, hunter2-and-mo", "[redacted], [redacted]-and-mo"],
  ["it was before", "it was [redacted]"],
  ["hunter", "hunter"],
  ["ada and hunter", "ada and hunter"],
  ["", ""],
  [`{"token":${JSON.stringify(`quo"ted\\ & 'more'`)}}`, `{"token":"[redacted]"}`],
  [`{ token: \`quo"ted\\\\ & 'more'\` }`, "{ token: `[redacted]` }"],
  [`https://example.org/?name=${encodeURIComponent("ü/ß?")}`, "https://example.org/?name=[redacted]"],
  [`key ${key}`, "key [redacted]"],
  ["only MIIEvQIBADANBgkq of it", "only [redacted] of it"],
  [JSON.stringify({ key }), '{"key":"[redacted]"}'],
])("the values of credentials are replaced in %j", (text, expected) => {
  expect(redactor.redact(text)).toBe(expected);
});

test("a value at which the text was cut is replaced too", () => {
  expect(redactor.redact("login with hunte", true)).toBe("login with [redacted]");
  expect(redactor.redact("login with hunte")).toBe("login with hunte");
});

test("a value whose last character was cut is replaced too", () => {
  const own = new Redactor([credentials({ a: { password: "secret😀and more" } })]);
  expect(own.redact("is secret\uFFFD", true)).toBe("is [redacted]");
});

test("in JSON that was cut, a value at the end of a text is replaced too", () => {
  const json = { list: ["login with hunte"] };
  expect(redactJson(redactor, json, true)).toEqual({ json: { list: ["login with [redacted]"] }, isRedacted: true });
  expect(redactJson(redactor, json, false)).toEqual({ json, isRedacted: false });
});

test("values of three characters or less are kept, and so are texts without values", () => {
  const text = "ada wrote this";
  expect(redactor.redact(text)).toBe(text);
  expect(new Redactor([]).redact("hunter2")).toBe("hunter2");
});
