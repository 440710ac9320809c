import { execFileSync } from "node:child_process";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ModuleCatalog, readInstalledModules } from "../../src/modules/catalog.ts";
import { writeFiles } from "../planted-code.ts";
import { createFolder } from "../../../../test/store/builders.ts";
import { writeModules } from "./write-modules.ts";

test("lists modules with their exact versions, hashes and types, and what of them is disabled", async () => {
  await using folder = await createFolder();
  await writeModules(folder.path, [
    { name: "node-red-contrib-one", version: "1.2.3", types: ["one", "one in"] },
    { name: "@scope/two", types: [] },
    { name: "three", types: ["three"] },
  ]);
  await writeFiles(folder.path, {
    "package.json": JSON.stringify({
      dependencies: { "node-red-contrib-one": "^1.0.0", "@scope/two": "1.0.0", "../three": "1.0.0", three: "1.0.0" },
      flowgate: { disabled: ["@scope/two", "three/all"] },
    }),
  });
  const integrity = expect.stringMatching(/^sha512-/) as string;
  expect(await readInstalledModules(folder.path)).toEqual([
    { name: "@scope/two", version: "1.0.0", integrity, isEnabled: false, types: [], sets: [] },
    {
      name: "node-red-contrib-one",
      version: "1.2.3",
      integrity,
      isEnabled: true,
      types: ["one", "one in"],
      sets: [{ name: "all", types: ["one", "one in"], isEnabled: true }],
    },
    {
      name: "three",
      version: "1.0.0",
      integrity,
      isEnabled: false,
      types: ["three"],
      sets: [{ name: "all", types: ["three"], isEnabled: false }],
    },
  ]);
});

test("there are none in an empty folder, and in one that does not exist", async () => {
  await using folder = await createFolder();
  expect(await readInstalledModules(folder.path)).toEqual([]);
  expect(await readInstalledModules(join(folder.path, "absent"))).toEqual([]);
});

test.each([
  ["no nodes", {}, []],
  ["a list of nodes", { nodes: ["node.js"] }, ["a"]],
  ["nodes that are no text", { nodes: { a: 1, b: null, c: {} } }, []],
  ["a file outside of the module", { nodes: { a: "../../outside.js" } }, []],
  ["a file that does not exist", { nodes: { a: "absent.js" } }, []],
  ["a folder", { nodes: { a: "." } }, []],
])("a malformed module lists no types that it has not: %s", async (_, section, types) => {
  await using folder = await createFolder();
  await writeFiles(folder.path, {
    "package.json": JSON.stringify({ dependencies: { a: "1.0.0" } }),
    "outside.html": `<script data-template-name="outside"></script>`,
    "node_modules/a/package.json": JSON.stringify({ version: "1.0.0", "node-red": section }),
    "node_modules/a/node.js": "",
    "node_modules/a/node.html": `<script data-template-name="a"></script>`,
  });
  expect((await readInstalledModules(folder.path)).map((module) => module.types)).toEqual([types]);
});

test.each([
  [`<script type="text/html" data-template-name="a b">`, ["a b"]],
  [`<SCRIPT data-template-name = 'a'></SCRIPT><script type="text/x-red" data-template-name="b">`, ["a", "b"]],
  [`<div data-template-name="a">`, []],
  [`<script>const x = 'data-template-name="a"'`, []],
  [`<script `.repeat(50_000), []],
  [`data-template-name="a"`.repeat(20_000), []],
])("finds the types of a template as Node-RED does", async (template, types) => {
  await using folder = await createFolder();
  await writeFiles(folder.path, {
    "package.json": JSON.stringify({ dependencies: { a: "1.0.0" } }),
    "node_modules/a/package.json": JSON.stringify({ version: "1.0.0", "node-red": { nodes: { a: "node.js" } } }),
    "node_modules/a/node.html": template,
  });
  expect((await readInstalledModules(folder.path)).map((module) => module.types)).toEqual([types]);
});

test("types that could not be read for a lack of file descriptors are read again", async () => {
  await using folder = await createFolder();
  const names = Array.from({ length: 8 }, (_, at) => `contrib-${at}`);
  await writeModules(
    folder.path,
    names.map((name) => ({ name, types: [name] })),
  );
  const catalogPath = new URL("../../src/modules/catalog.ts", import.meta.url).href;
  const program = `import { closeSync, openSync } from "node:fs";
    import { ModuleCatalog } from ${JSON.stringify(catalogPath)};
    const catalog = new ModuleCatalog(process.argv[1]);
    const files = [];
    try { for (;;) files.push(openSync("/dev/null")); } catch {}
    // One is left, for one file after another.
    closeSync(files.pop());
    const outcome = await catalog.list().then(() => "read", ({ code }) => code);
    files.forEach((file) => closeSync(file));
    const modules = await catalog.list();
    console.log(JSON.stringify([outcome, modules.flatMap(({ types }) => types)]));`;
  const command = `ulimit -n 60 && exec "$0" --input-type=module --eval "$@"`;
  const printed = execFileSync("sh", ["-c", command, process.execPath, program, folder.path], { encoding: "utf8" });
  expect(JSON.parse(printed)).toEqual(["EMFILE", names]);
});

test("a catalog notices that a command has replaced the folder", async () => {
  await using folder = await createFolder();
  const modulesDir = join(folder.path, "modules");
  const catalog = new ModuleCatalog(modulesDir);
  expect(await catalog.list()).toEqual([]);
  await writeModules(join(folder.path, "next"), [{ name: "a", types: ["a"] }]);
  await rename(join(folder.path, "next"), modulesDir);
  expect(await catalog.list()).toMatchObject([{ name: "a", types: ["a"] }]);
  expect(await catalog.list()).toBe(await catalog.list());
});
