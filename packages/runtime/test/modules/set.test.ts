import { expect, test } from "vitest";
import type { InstalledModule } from "../../src/modules/catalog.ts";
import { compareModules, parseWanted } from "../../src/modules/set.ts";

const integrity = `sha512-${"a".repeat(86)}==`;
const other = `sha512-${"b".repeat(86)}==`;

const installed: readonly InstalledModule[] = [
  { name: "one", version: "1.2.3", integrity, upload: undefined, isEnabled: true, types: [], sets: [] },
  { name: "by-hand", version: "1.0.0", integrity: undefined, upload: undefined, isEnabled: true, types: [], sets: [] },
  { name: "broken", version: undefined, integrity: undefined, upload: undefined, isEnabled: true, types: [], sets: [] },
];

test.each<[name: string, version: string, hash: string | undefined, state: string]>([
  ["one", "1.2.3", undefined, "present"],
  ["one", "1.2.3", integrity, "present"],
  ["one", "1.2.3", other, "upgraded"],
  ["one", "^1.0.0", undefined, "present"],
  ["one", "", undefined, "present"],
  ["one", "latest", undefined, "present"],
  ["one", "1.2.4", undefined, "upgraded"],
  ["by-hand", "1.0.0", integrity, "present"],
  ["by-hand", "2.0.0", integrity, "upgraded"],
  ["broken", "", undefined, "upgraded"],
  ["two", "1.0.0", undefined, "missing"],
])("%s@%s with the hash %s is %s", (name, version, hash, state) => {
  expect(compareModules(installed, [{ name, version, integrity: hash }]).map((each) => each.state)).toEqual([state]);
});

test.each([
  [[{ name: "a b", version: "" }], "modules[0].name: must be the name of an npm package, without a version"],
  [
    [{ name: "a", version: "file:x" }],
    "modules[0].version: must be a version, range or tag of a package in a registry",
  ],
  [
    [{ name: "a", version: "", integrity: "sha1-x" }],
    "modules[0].integrity: must be the hash of a tarball, such as sha512-…",
  ],
  [
    [
      { name: "a", version: "" },
      { name: "a", version: "1.0.0" },
    ],
    "modules[1].name: a is named twice",
  ],
])("%j is refused", (modules, message) => {
  expect(() => parseWanted(modules.map((each) => ({ integrity: undefined, ...each })))).toThrow(
    expect.objectContaining({ reason: "invalid_argument", message }),
  );
});

test("names at most 200 modules", () => {
  const modules = Array.from({ length: 201 }, (_, index) => ({ name: `m${index}`, version: "", integrity: undefined }));
  expect(() => parseWanted(modules)).toThrow("modules: must be at most 200");
  expect(parseWanted(modules.slice(1))).toHaveLength(200);
});
