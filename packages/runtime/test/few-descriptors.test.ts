import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeModules } from "./modules/write-modules.ts";
import { createFolder } from "../../../test/store/builders.ts";
import { writeFiles } from "./planted-code.ts";

const source = (path: string): string => JSON.stringify(new URL(`../src/${path}`, import.meta.url).href);

/** Runs a program in which `withoutDescriptors` calls a function while the process has none left, and returns what it prints. */
function run(program: string, folder: string): unknown {
  const prelude = `import { closeSync, openSync } from "node:fs";
    const folder = process.argv[1];
    async function withoutDescriptors(act) {
      const files = [];
      try { for (;;) files.push(openSync("/dev/null")); } catch {}
      try { return await act(); } catch (error) { return String(error.code ?? error); }
      finally { files.forEach((file) => closeSync(file)); }
    }`;
  const args = ["-c", 'ulimit -n 60 && exec "$0" --input-type=module --eval "$@"', process.execPath];
  return JSON.parse(execFileSync("sh", [...args, prelude + program, folder], { encoding: "utf8" }));
}

const disabled = { modules: ["a"], sets: ["b/all"] };

async function createModules() {
  const folder = await createFolder();
  const modulesDir = join(folder.path, "modules");
  await writeModules(modulesDir, [{ name: "a" }, { name: "b", types: ["b"] }]);
  const dependencies = { a: "1.0.0", b: "1.0.0" };
  await writeFiles(modulesDir, {
    "package.json": JSON.stringify({ dependencies, flowgate: { disabled: ["a", "b/all"] } }),
    "folder.json": JSON.stringify({ id: "the folder" }),
  });
  return folder;
}

test("what is disabled and installed stays known while there are no file descriptors", async () => {
  await using folder = await createModules();
  const printed = run(
    `import { completeOptions } from ${source("options.ts")};
    import { ModuleExclusion } from ${source("restarts.ts")};
    const modulesDir = folder + "/modules";
    const options = completeOptions({ active: async () => {}, dir: folder, modulesDir });
    const read = () => ({ disabled: options.disabled(), id: options.folderId(), installed: options.installed() });
    const before = read();
    const during = await withoutDescriptors(read);
    const exclusion = new ModuleExclusion({ modulesDir, safeMode: { exits: 1 }, log() {} });
    const failure = await withoutDescriptors(() => exclusion.recordExit({ isLoadFailure: true, cause: "it crashed" }));
    console.log(JSON.stringify({ before, during, failure, isExcluded: exclusion.reason !== undefined }));`,
    folder.path,
  ) as { readonly before: { readonly id: string } };
  const installed = ["a", "b"].map((name) => ({ name, version: "1.0.0" }));
  const state = { disabled, installed, id: expect.stringMatching(/^the folder /) as string };
  expect(printed).toEqual({ before: state, during: printed.before, isExcluded: true });
});

test("what is disabled is an error if it was never read, and not empty", async () => {
  await using folder = await createModules();
  const printed = run(
    `import { readDisabled } from ${source("modules/disabled.ts")};
    import { identifyFolder } from ${source("modules/folder.ts")};
    const modulesDir = folder + "/modules";
    const reads = [() => readDisabled(modulesDir), () => identifyFolder(modulesDir)];
    const during = [];
    for (const read of reads) during.push(await withoutDescriptors(read));
    console.log(JSON.stringify([during, readDisabled(modulesDir)]));`,
    folder.path,
  );
  expect(printed).toEqual([["EMFILE", "EMFILE"], disabled]);
});

test("the list of modules remains while it can't be read to disable one", async () => {
  await using folder = await createModules();
  const manifest = join(folder.path, "modules/package.json");
  const before = await readFile(manifest, "utf8");
  const printed = run(
    `import { writeDisabled } from ${source("modules/disable.ts")};
    const nothing = { modules: [], sets: [] };
    console.log(JSON.stringify(await withoutDescriptors(() => writeDisabled(folder + "/modules", nothing))));`,
    folder.path,
  );
  expect([printed, await readFile(manifest, "utf8")]).toEqual(["EMFILE", before]);
});
