import { expect, test } from "vitest";
import { reasonsOfFailure, type Result } from "../../torture/drill.ts";

const passed: Result = {
  loads: [{ name: "kills", count: 10, minimum: 10 }],
  figures: [],
  violations: [],
  controls: [{ planted: "a lost write", found: ["it is lost"] }],
};

test.each<[string, Partial<Result>, readonly string[]]>([
  ["passes", {}, []],
  ["fails with a violation", { violations: ["a write is lost"] }, ["a write is lost"]],
  [
    "is void below its minimum load",
    { loads: [{ name: "kills", count: 9, minimum: 10 }] },
    ["void: 9 kills, but at least 10 are required"],
  ],
  [
    "fails if a control is missed",
    { controls: [...passed.controls, { planted: "a delay", found: [] }] },
    ["the control was missed: a delay"],
  ],
  ["is void without controls", { controls: [] }, ["void: there is no control"]],
])("a drill %s", (_what, changes, reasons) => {
  expect(reasonsOfFailure({ ...passed, ...changes })).toEqual(reasons);
});
