import { join } from "node:path";
import { expect, test } from "vitest";
import { assertLoadable, assertWellFormed } from "../../src/modules/node-packages.ts";
import { writeFiles } from "../planted-code.ts";
import { createFolder } from "../../../../test/store/builders.ts";

test.each<[string, problem: string, section: unknown]>([
  ["null", "node-red must be an object", null],
  ["a list", "node-red must be an object", []],
  ["nodes that are numbers", "node-red.nodes must be an object whose values are paths of files", { nodes: { a: 1 } }],
  ["nodes that are a text", "node-red.nodes must be an object whose values are paths of files", { nodes: "nodes.js" }],
  [
    "plugins that are null",
    "node-red.plugins must be an object whose values are paths of files",
    { plugins: { a: null } },
  ],
  [
    "dependencies that are an object",
    "node-red.dependencies must be an array of names of packages",
    { dependencies: { length: 1_000_000_000 } },
  ],
  [
    "dependencies that are numbers",
    "node-red.dependencies must be an array of names of packages",
    { dependencies: [1] },
  ],
])("a package is malformed if Node-RED can't read its description: %s", async (_, problem, section) => {
  await using folder = await createFolder();
  const malformed = { name: "malformed", path: "node_modules/malformed", version: "1.0.0" };
  await writeFiles(join(folder.path, malformed.path), {
    "package.json": JSON.stringify({ name: malformed.name, version: "1.0.0", "node-red": section }),
  });
  expect(() => assertLoadable(folder.path, [malformed])).toThrow(
    `malformed is malformed: in its package.json, ${problem}. It is not installed, and the modules remain as they were`,
  );
});

test.each<[string, problem: string, manifest: object]>([
  ["another name", "its package.json does not have this name", { name: "other" }],
  ["nodes that are missing", 'it has no file for its nodes "all"', { "node-red": { nodes: { all: "absent.js" } } }],
  [
    "nodes outside of it",
    'it has no file for its nodes "all"',
    { "node-red": { nodes: { all: "../../package.json" } } },
  ],
])("a package is malformed if Node-RED can't load its nodes: %s", async (_, problem, manifest) => {
  await using folder = await createFolder();
  await writeFiles(folder.path, {
    "package.json": "{}",
    "node_modules/malformed/package.json": JSON.stringify({ name: "malformed", version: "1.0.0", ...manifest }),
  });
  expect(() => assertWellFormed(folder.path, "malformed")).toThrow(
    `malformed is malformed: ${problem}. It is not installed, and the modules remain as they were`,
  );
});
