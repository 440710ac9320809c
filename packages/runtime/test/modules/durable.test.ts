import { spawnSync } from "node:child_process";
import { readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createFolder } from "../../../../test/store/builders.ts";
import { writeModules } from "./write-modules.ts";
import { needs } from "../../../../test/needs.ts";

const canTrace = spawnSync("strace", ["true"]).status === 0;
const changePath = JSON.stringify(new URL("../../src/modules/change.ts", import.meta.url).href);

/** What a change of the modules in this folder asks of the system: `sync PATH` and `rename FROM TO`, with paths in the folder. */
async function traceChange(dataDir: string, edit: string): Promise<string[]> {
  const output = join(dataDir, "trace");
  const program = `import { writeFile, mkdir, rm } from "node:fs/promises";
    import { changeModules } from ${changePath};
    await changeModules(process.argv[1], async ({ tree }) => { ${edit} });`;
  const trace = ["-f", "-y", "-s", "4096", "-e", "trace=fsync,fdatasync,rename", "-o", output];
  const { status, stderr } = spawnSync("strace", [
    ...trace,
    process.execPath,
    "--input-type=module",
    "--eval",
    program,
    dataDir,
  ]);
  expect([status, String(stderr)]).toEqual([0, ""]);
  const prefix = `${await realpath(dataDir)}/`;
  return (await readFile(output, "utf8"))
    .replaceAll(prefix, "")
    .split("\n")
    .flatMap((line) => {
      const [, synced] = /\bf(?:data)?sync\(\d+<([^>]*)>/.exec(line) ?? [];
      const [, from, to] = /\brename\("([^"]*)", "([^"]*)"/.exec(line) ?? [];
      return synced === undefined ? (from === undefined ? [] : [`rename ${from} ${to}`]) : [`sync ${synced}`];
    })
    .map((line) => line.replaceAll(/modules-install-\w+/g, "work").replaceAll(/adding-[\w-]+/g, "adding"));
}

test("what was added is on the disk before it is in the folder", needs("strace", canTrace), async () => {
  await using folder = await createFolder();
  await writeModules(join(folder.path, "modules"), [{ name: "a" }]);
  const calls = await traceChange(
    folder.path,
    `await mkdir(tree + "/node_modules/b/lib", { recursive: true });
    await writeFile(tree + "/node_modules/b/lib/b.js", "b");`,
  );
  const synced = calls.slice(0, calls.indexOf("rename work/adding modules/adding"));
  const expected = ["/0/lib/b.js", "/0/lib", "/0", "/1", "/2", "/paths.json", ""];
  expect(synced).toEqual(expect.arrayContaining(expected.map((path) => `sync work/adding${path}`)));
  const rest = calls.slice(synced.length);
  expect(rest.indexOf("sync modules")).toBeGreaterThan(0);
  expect(rest.indexOf("sync modules")).toBeLessThan(rest.indexOf("rename modules/adding/0 modules/node_modules/b"));
});

test("a folder is on the disk before it takes the place of another one", needs("strace", canTrace), async () => {
  await using folder = await createFolder();
  await writeModules(join(folder.path, "modules"), [{ name: "a" }]);
  const calls = await traceChange(
    folder.path,
    `await writeFile(tree + "/node_modules/a/package.json", JSON.stringify({ name: "a", version: "2.0.0" }));`,
  );
  const at = calls.indexOf("rename work/tree modules");
  const paths = [
    "/package.json",
    "/package-lock.json",
    "/folder.json",
    "/node_modules/a/package.json",
    "/node_modules/a",
    "/node_modules",
    "",
  ];
  expect(calls.slice(0, at)).toEqual(expect.arrayContaining(paths.map((path) => `sync work/tree${path}`)));
  expect(calls[at + 1]).toBe(`sync ${await realpath(folder.path)}`);
});
