import { appendFile, mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createFolder } from "../../../test/store/builders.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, installProbe } from "./flow-builders.ts";

/** The files in the caches of the flow runtime, with their sizes and when they were changed. */
async function readCaches(codeCacheDir: string): Promise<string[]> {
  const folder = join(codeCacheDir, "flow-runtime");
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const facts = await Promise.all(files.map(async (path) => [path, await stat(path)] as const));
  return facts.map(([path, { size, mtimeMs }]) => `${path} ${size} ${mtimeMs}`).toSorted();
}

/** Waits until a process has filled the cache, which renames its folder. */
async function untilFilled(codeCacheDir: string): Promise<void> {
  const names = () => readdir(join(codeCacheDir, "flow-runtime")).catch(() => []);
  await expect.poll(names).toEqual([expect.stringMatching(/^[\da-f]{16}$/)]);
}

/** The result of code that has Node's `process` as `host`, and `load` to load its modules. */
async function evaluate(runtime: OpenedRuntime, seq: number, code: string): Promise<unknown> {
  const flows = endpoint(
    "/evaluate",
    `${escape} const load = host.getBuiltinModule; msg.payload = JSON.stringify((() => { ${code} })() ?? null)`,
  );
  await runtime.restart(revision(seq, flows));
  return JSON.parse(await runtime.get("/evaluate"));
}

test("a process without flows and added modules fills the cache, which later ones can only read", async () => {
  await using folder = await createFolder();
  const codeCacheDir = folder.path;
  await using runtime = await runtimeUnderTest({ codeCacheDir }, installProbe);
  await untilFilled(codeCacheDir);
  const filled = await readCaches(codeCacheDir);
  expect(filled.length).toBeGreaterThan(200);

  const directory = await evaluate(runtime, 1, `return load("module").getCompileCacheDir()`);
  expect(directory).toContain(join(codeCacheDir, "flow-runtime"));
  const attempts = `
    const folder = load("module").getCompileCacheDir(), outcomes = [];
    const attempt = (act) => { try { act(); outcomes.push("done"); } catch ({ code }) { outcomes.push(code); } };
    const [name] = load("fs").readdirSync(folder);
    attempt(() => load("fs").writeFileSync(folder + "/" + name, "planted"));
    attempt(() => load("fs").rmSync(folder + "/" + name));
    attempt(() => load("fs").writeFileSync(folder + "/planted", ""));
    // Node would keep this code for the file of Node-RED.
    const Module = load("module"), file = ${JSON.stringify(import.meta.resolve("@node-red/runtime").slice("file://".length))};
    attempt(() => new Module(file)._compile("module.exports = 'planted'", file));
    attempt(() => Module.flushCompileCache());
    return [outcomes, Object.keys(host.env).filter((name) => name.includes("COMPILE_CACHE"))];`;
  const denied = "ERR_ACCESS_DENIED";
  expect(await evaluate(runtime, 2, attempts)).toEqual([[denied, denied, denied, "done", "done"], []]);
  // The process that has tried exits, when Node writes a cache that it may write.
  await runtime.restart(revision(3, []));
  expect(await readCaches(codeCacheDir)).toEqual(filled);
});

test("there is none if flows may write its folder", async () => {
  await using folder = await createFolder();
  const codeCacheDir = join(folder.path, "cache");
  await mkdir(codeCacheDir);
  const allow = { fileSystemWrite: [folder.path] };
  await using runtime = await runtimeUnderTest({ codeCacheDir, allow });
  await runtime.untilState("running");
  expect(await evaluate(runtime, 1, `return load("module").getCompileCacheDir()`)).toBeNull();
  expect(await readdir(codeCacheDir)).toEqual([]);
});

test("a runtime whose folder does not exist starts without it", async () => {
  await using folder = await createFolder();
  await using runtime = await runtimeUnderTest({ codeCacheDir: join(folder.path, "cache") });
  await runtime.untilState("running");
  expect(runtime.status().message).toBeUndefined();
});

test("a runtime that ends leaves no unfinished cache", async () => {
  await using folder = await createFolder();
  const runtime = await runtimeUnderTest({ codeCacheDir: folder.path });
  await runtime.untilState("running");
  await runtime[Symbol.asyncDispose]();
  const names = await readdir(join(folder.path, "flow-runtime"));
  expect(names.filter((name) => name.includes("."))).toEqual([]);
});

test("a damaged cache is not used", async () => {
  await using folder = await createFolder();
  const codeCacheDir = folder.path;
  await using runtime = await runtimeUnderTest({ codeCacheDir });
  await untilFilled(codeCacheDir);
  for (const line of await readCaches(codeCacheDir)) {
    await appendFile(line.split(" ")[0] ?? "", "x");
  }
  expect(await evaluate(runtime, 1, `return 1`)).toBe(1);
});
