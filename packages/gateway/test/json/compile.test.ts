import { expect, test } from "vitest";
import { compile, literal } from "../../src/json/compile.ts";

test("compiles code with its scope, unless code generation is forbidden", () => {
  const name = `"a'\\b\n\u2028`;
  const compiled = compile<() => unknown>({ value: 1 }, `return () => [${literal(name)}, value];`, () => "interpreted");
  expect(compiled()).toEqual(process.env["CODE_GENERATION"] === "forbidden" ? "interpreted" : [name, 1]);
});
