import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expandTemplate, formatTemplate, parseTemplate } from "../../src/routing/template.ts";
import { anyTemplate } from "../any-template.ts";
import { vectors } from "../vectors.ts";

type Parsed = {
  template: string;
  expect: { segments: string[]; vars: Record<string, [number, number]>; verb: string };
};

test.each(vectors<Parsed>("template-parse"))("parses %s", (_id, { template, expect: expected }) => {
  const { segments, variables, verb } = parseTemplate(template);
  expect({
    segments: segments.map((segment) => (segment.kind === "literal" ? segment.text : segment.kind)),
    vars: Object.fromEntries(variables.map(({ fieldPath, start, end }) => [fieldPath, [start, end]])),
    verb,
  }).toEqual(expected);
});

test.each(vectors<{ template: string }>("template-invalid"))("rejects %s", (_id, { template }) => {
  expect(() => parseTemplate(template)).toThrow(`the template "${template}" is invalid at character`);
});

test.each(vectors<{ template: string }>("template-invalid", ["strict"]))(
  "accepts %s, but not with strict",
  (_id, { template }) => {
    expect(formatTemplate(parseTemplate(template))).toBe(template);
    expect(() => parseTemplate(template, { strict: true })).toThrow(
      `the template "${template}" is invalid at character`,
    );
  },
);

test.each([
  ["", 1, 'it must begin with "/"'],
  ["a/b", 1, 'it must begin with "/"'],
  ["//", 2, "the segment is empty"],
  ["/a/", 4, "the segment is empty"],
  ["/:verb", 2, "the segment is empty"],
  ["/a/:verb", 4, "the segment is empty"],
  ["/a:", 4, "the verb is empty"],
  ["/a:b/c", 5, `unexpected "/": the verb must be last`],
  ["/a:b:c", 5, `unexpected ":": the verb must be last`],
  ["/a:*", 4, 'unexpected "*"'],
  ["/a b", 3, 'unexpected " "'],
  ["/a?b=c", 3, 'unexpected "?"'],
  ["/a#b", 3, 'unexpected "#"'],
  ["/a}", 3, 'unexpected "}"'],
  ["/\ud800", 2, 'unexpected "\ud800"'],
  ["/a/%zz", 4, `"%zz" has a bad percent-escape`],
  ["/a/%ff", 4, `"%ff" has a bad percent-escape`],
  ["/***", 2, '"***" is not a wildcard'],
  ["/a*", 3, "a variable or wildcard must be a whole segment"],
  ["/*a", 3, "a variable or wildcard must be a whole segment"],
  ["/**a", 4, "a variable or wildcard must be a whole segment"],
  ["/a{x}", 3, "a variable or wildcard must be a whole segment"],
  ["/{x}a", 5, "a variable or wildcard must be a whole segment"],
  ["/{x}{y}", 5, "a variable or wildcard must be a whole segment"],
  ["/{}", 3, "a field name was expected"],
  ["/{x.}", 5, "a field name was expected"],
  ["/{1}", 3, "a field name was expected"],
  ["/{a-b}", 4, 'unexpected "-"'],
  ["/{x", 4, "the variable is not closed"],
  ["/{x.", 5, "the variable is not closed"],
  ["/{x=*", 6, "the variable is not closed"],
  ["/{x=}", 5, "the segment is empty"],
  ["/{x=/a}", 5, "the segment is empty"],
  ["/{x=a/}", 7, "the segment is empty"],
  ["/{x=a/{y}}", 7, "variables can't be nested"],
  ["/{x=a:b}", 6, "a verb can't be inside a variable"],
  ["/{x}/a/{x}", 8, 'the variable "x" is declared twice'],
  ["/**/a/*", 7, 'no wildcard can follow "**"'],
  ["/**/{x}", 5, 'no wildcard can follow "**"'],
  ["/{x=**}/**", 9, 'no wildcard can follow "**"'],
])("reports the problem of %j and its position", (template, character, what) => {
  expect(() => parseTemplate(template)).toThrow(
    new Error(`the template "${template}" is invalid at character ${character}: ${what}`),
  );
});

test.each([
  ["/{parent=documents/*/**}/{collection_id}", {}],
  ["/{name=**/botSessions/*}:go", {}],
])("%s is a template of Google's", (template) => {
  expect(formatTemplate(parseTemplate(template, { google: true }))).toBe(template);
  expect(() => parseTemplate(template, { google: true, strict: true })).toThrow('"**" must be the last segment');
});

test("** can occur only once in a template of Google's", () => {
  expect(() => parseTemplate("/**/*/**", { google: true })).toThrow(`"**" can occur only once`);
});

test("the root is a template, as an extension of http.proto", () => {
  expect(parseTemplate("/")).toEqual({ segments: [], variables: [], verb: "" });
  expect(() => parseTemplate("/", { strict: true })).toThrow(
    new Error('the template "/" is invalid at character 2: the segment is empty'),
  );
});

test.each(["/v1/%7Euser", "/世界", "/a%3Ab", "/a+b=c,d;e@f!g$h&i'(j)"])("accepts the literal of %s", (template) => {
  expect(parseTemplate(template).segments.at(-1)).toMatchObject({
    text: template.split("/").at(-1),
    decoded: decodeURIComponent(template.split("/").at(-1) ?? ""),
  });
});

test("parsing a formatted template returns the same template", () => {
  fc.assert(
    fc.property(anyTemplate(), (template) => {
      expect(parseTemplate(formatTemplate(template))).toEqual(template);
    }),
  );
});

type Encoded = { template: string; vars: Record<string, string>; expect: { ok: boolean; path?: string } };

const encodings = vectors<Encoded>("encode");

test.each(encodings.filter(([, vector]) => vector.expect.ok))(
  "makes the path of %s",
  (_id, { template, vars, expect: { path } }) => {
    expect(expandTemplate(parseTemplate(template), vars)).toBe(path);
  },
);

test.each(encodings.filter(([, vector]) => !vector.expect.ok))("makes no path of %s", (_id, { template, vars }) => {
  expect(() => expandTemplate(parseTemplate(template), vars)).toThrow(/^the variable "\w+" of \S+ can't be "/);
});

describe("expandTemplate", () => {
  test.each([
    ["/a/{x=**}", { x: "" }, "/a"],
    ["/a/{x=**}", { x: "b//c" }, "/a/b//c"],
    ["/a/{x=**}:go", { x: "b:c" }, "/a/b%3Ac:go"],
    ["/{x=o/**/end}/{y=z}", { x: "o/end", y: "z" }, "/o/end/z"],
    ["/{x=**}", { x: "a%2Fb/50%" }, "/a%252Fb/50%25"],
    ["/{x=**/b/*}", { x: "a/b/c" }, "/a/b/c"],
    ["/{x}", { x: "a/b!'()*" }, "/a%2Fb%21%27%28%29%2A"],
    ["/{x=a%20b/*}", { x: "a b/c" }, "/a%20b/c"],
  ])("%s with %j is %s", (template, values, path) => {
    expect(expandTemplate(parseTemplate(template, { google: true }), values)).toBe(path);
  });

  test.each<[string, Record<string, string>, string]>([
    ["/{x}", {}, 'the variable "x" of /{x} has no value'],
    ["/{toString}", {}, 'the variable "toString" of /{toString} has no value'],
    ["/{x}", { x: "" }, `the variable "x" of /{x} can't be ""`],
    ["/{x=a/*}", { x: "a/" }, `the variable "x" of /{x=a/*} can't be "a/"`],
    ["/{x=a/*}", { x: "b/c" }, `the variable "x" of /{x=a/*} can't be "b/c"`],
    ["/{x=*/**}", { x: "" }, `the variable "x" of /{x=*/**} can't be ""`],
    ["/*/{x}", { x: "a" }, "the template /*/{x} has a wildcard outside of a variable"],
  ])("%s with %j is an error", (template, values, problem) => {
    expect(() => expandTemplate(parseTemplate(template), values)).toThrow(new Error(problem));
  });
});
