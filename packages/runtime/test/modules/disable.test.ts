import { expect, test } from "vitest";
import { changeDisabled } from "../../src/modules/disable.ts";

const setsOf = (name: string, off: readonly string[]) => ({
  name,
  sets: ["a", "b"].map((set) => ({ name: set, types: [set], isEnabled: !off.includes(set) })),
});

const library = { name: "library", sets: [] };

test.each([
  ["a set", setsOf("one", []), { isEnabled: false, set: "a" }, [], ["one/a"]],
  ["the last set", setsOf("one", ["a"]), { isEnabled: false, set: "b" }, ["one"], []],
  [
    "the last of Node-RED's own",
    setsOf("node-red", ["a"]),
    { isEnabled: false, set: "b" },
    [],
    ["node-red/a", "node-red/b"],
  ],
  ["a module", setsOf("@s/one", ["a"]), { isEnabled: false, set: undefined }, ["@s/one"], []],
  ["a module without nodes", library, { isEnabled: false, set: undefined }, ["library"], []],
])("disabling %s", (_, module, change, modules, sets) => {
  const before = { modules: ["other"], sets: ["other/a", `${module.name}/old`] };
  expect(changeDisabled(before, module, change)).toEqual({
    modules: ["other", ...modules],
    sets: ["other/a", ...sets],
  });
});

test("enabling a set of a disabled module beside one that can't be disabled alone", () => {
  const sets = ["a", "b", "c/d"].map((name) => ({ name, types: [name], isEnabled: false }));
  const before = { modules: ["one"], sets: [] };
  const after = changeDisabled(before, { name: "one", sets }, { isEnabled: true, set: "a" });
  expect(after).toEqual({ modules: [], sets: ["one/b"] });
});

test.each([
  ["a set", setsOf("one", ["a", "b"]), { isEnabled: true, set: "a" }, ["one/b"]],
  ["the last set", setsOf("one", ["a"]), { isEnabled: true, set: "a" }, []],
  ["a module", setsOf("one", ["a", "b"]), { isEnabled: true, set: undefined }, []],
  ["a module without nodes", library, { isEnabled: true, set: undefined }, []],
])("enabling %s", (_, module, change, sets) => {
  const before = { modules: [module.name, "other"], sets: ["other/a"] };
  expect(changeDisabled(before, module, change)).toEqual({ modules: ["other"], sets: ["other/a", ...sets] });
});
