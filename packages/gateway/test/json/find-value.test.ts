import fc from "fast-check";
import { expect, test } from "vitest";
import { findJsonValue } from "../../src/json/find-value.ts";
import { formatPath, type JsonPath, splitPath } from "../../src/json/path.ts";

const text = `
{ "a" : [ 1, {"b\\u0063": true, "d": "x,]}\\"" }, null ],
  "e":{}, "f": -1.5e3 }`;

test.each<[path: JsonPath, value: string]>([
  [[], "{ "],
  [["a"], "[ 1"],
  [["a", 0], "1,"],
  [["a", 1], '{"b'],
  [["a", 1, "bc"], "true"],
  [["a", 1, "d"], '"x,]'],
  [["a", 2], "null"],
  [["e"], "{}"],
  [["f"], "-1.5e3"],
  // There is no such value: the nearest ancestor.
  [["a", 3], "[ 1"],
  [["a", "b"], "[ 1"],
  [["e", "x"], "{}"],
  [["f", 0], "-1.5e3"],
])("finds the value at %j", (path, value) => {
  expect(text.slice(findJsonValue(text, path)).slice(0, value.length)).toBe(value);
});

test("finds the values of any document", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 2), (document, space) => {
      const json = JSON.stringify(document, undefined, space);
      for (const [path, value] of valuesOf(JSON.parse(json), [])) {
        // Of an object or array, the first character: its spaces depend on its depth.
        const start = JSON.stringify(value).slice(0, typeof value === "object" && value !== null ? 1 : undefined);
        expect(json.slice(findJsonValue(json, path)).slice(0, start.length)).toBe(start);
      }
    }),
  );
});

function* valuesOf(value: unknown, path: JsonPath): Generator<[JsonPath, unknown]> {
  yield [path, value];
  if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      yield* valuesOf(item, [...path, Array.isArray(value) ? Number(key) : key]);
    }
  }
}

test("splits what formatPath has written from the rest of a message", () => {
  const step = fc.oneof(
    fc.nat(),
    fc.string({ maxLength: 64, unit: "binary" }).filter((name) => name.isWellFormed()),
  );
  fc.assert(
    fc.property(fc.array(step), (path) => {
      expect(splitPath(`${formatPath(path)}: must be: x`)).toEqual({ path, rest: "must be: x" });
    }),
  );
  expect(splitPath("no path here")).toEqual({ path: [], rest: "no path here" });
});
