import { expect, test } from "vitest";
import { isAllowed, isModuleRule, listsByName } from "../../src/modules/policy.ts";

test.each<[allow: string[], deny: string[], name: string, version: string | undefined, expected: boolean]>([
  [["*"], [], "a", "1.0.0", true],
  [["*"], ["a"], "a", "1.0.0", false],
  [["*"], ["a"], "ab", "1.0.0", true],
  [["*"], ["@scope/*"], "@scope/a", "1.0.0", false],
  [["a"], [], "a", "1.0.0", true],
  [["a"], [], "b", "1.0.0", false],
  [[], [], "a", "1.0.0", false],
  [["node-red-contrib-*"], ["*"], "node-red-contrib-a", "1.0.0", true],
  [["node-red-contrib-*"], ["node-red-contrib-a"], "node-red-contrib-a", "1.0.0", false],
  [["node-red-contrib-a*"], ["node-red-contrib-*"], "node-red-contrib-ab", "1.0.0", true],
  [["a"], ["a"], "a", "1.0.0", false],
  [["a@^1.0.0"], [], "a", "1.9.0", true],
  [["a@^1.0.0"], [], "a", "2.0.0", false],
  [["a@^1.0.0"], [], "a", undefined, true],
  [["*"], ["a@<2"], "a", "1.0.0", false],
  [["*"], ["a@<2"], "a", "2.0.0", true],
  [["*"], ["a@<2"], "a", undefined, true],
  [["*"], ["a.b"], "axb", "1.0.0", true],
])("with allow %j and deny %j, %s@%s is allowed: %s", (allow, deny, name, version, expected) => {
  expect(isAllowed({ allow, deny }, name, version)).toBe(expected);
});

test.each<[allow: string[], deny: string[], allowed: string[], denied: string[]]>([
  [["*"], ["a@<2"], ["a", "b", "*"], []],
  [["*"], ["a@>=2"], ["b", "*"], ["a"]],
  [["*"], ["a"], ["b", "*"], ["a", "a"]],
  [["a@^2"], [], ["a", "a@^2"], ["b", "*"]],
  [["a@^3"], [], ["a@^3"], ["a", "b", "*"]],
])(
  "with allow %j and deny %j, modules of functions are allowed by %j and denied by %j",
  (allow, deny, allowed, denied) => {
    const installed = ["a", "b"].map((name) => ({ name, version: "2.1.0" }));
    expect(listsByName({ allow, deny }, installed)).toEqual({ allow: allowed, deny: denied });
  },
);

test.each(["*", "a", "@scope/*", "@scope/a@^1.2.3", "a@>=1 <2", "node-red-contrib-*", "a@"])("%s is a rule", (rule) => {
  expect(isModuleRule(rule)).toBe(true);
});

test.each(["", "a b", "../a", "a/b/c", "a@git+ssh://x", "a@file:x", "(a+)+"])("%s is no rule", (rule) => {
  expect(isModuleRule(rule)).toBe(false);
});
