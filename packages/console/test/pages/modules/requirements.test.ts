import { expect, test } from "vitest";
import { describeMissing, findNamedModules } from "../../../src/pages/modules/requirements.ts";

const config = (modules: unknown) => ({ type: "global-config", properties: { modules } as never });

test("a missing type has its nodes, and the disabled module that defines it", () => {
  const modules = [
    { name: "off", enabled: false, types: ["one"] },
    { name: "on", enabled: true, types: ["two"] },
  ];
  expect(
    describeMissing(["one", "two", "three"], modules, [{ type: "one" }, { type: "one" }, { type: "tab" }]),
  ).toEqual([
    { type: "one", nodes: 2, disabledModule: "off" },
    { type: "two", nodes: 0, disabledModule: undefined },
    { type: "three", nodes: 0, disabledModule: undefined },
  ]);
});

test("finds the modules that the flows name, but for those that are installed", () => {
  expect(
    findNamedModules(
      [config({ "contrib-one": "1.2.0", "contrib-two": "2.0.0", odd: 7 }), { type: "function", properties: {} }],
      [{ name: "contrib-two" }],
    ),
  ).toEqual([
    { name: "contrib-one", version: "1.2.0" },
    { name: "odd", version: "" },
  ]);
});

test.each([[undefined], [null], ["contrib-one"], [["contrib-one"]], [7]])("no modules are named by %j", (modules) => {
  expect(findNamedModules([config(modules)], [])).toEqual([]);
});
