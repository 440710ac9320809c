import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { installPackages, shellEnvironment as env } from "../../../../test/packaging/build.ts";
import { root, run } from "../../../../test/packaging/stage.ts";
import { readExample } from "../readme.ts";

let folder: string;

beforeAll(async () => {
  folder = join(await installPackages(), "runtime-example");
  await mkdir(folder, { recursive: true });
}, 300_000);

test("the packed package runs the example of the README", async () => {
  const { code, output } = await readExample();
  await writeFile(join(folder, "hello.js"), code);
  await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", private: true }));
  expect(await run(process.execPath, ["hello.js"], { cwd: folder, env })).toBe(output);
});

test("the packed package has types", async () => {
  const program = join(folder, "types.mts");
  await writeFile(
    program,
    `import { createRevision, injectNode, openRuntime, type Runtime } from "@flowgate/runtime";
     import { openModules } from "@flowgate/runtime/modules";
     export const open = (): Runtime => openRuntime({ dir: "node-red", log: ({ level, message }) => console.log(level, message) });
     export const deploy = (runtime: Runtime) => runtime.apply(createRevision(1, [{ id: "a", type: "tab" }]));
     export const inject = (runtime: Runtime) => runtime.call(injectNode, { id: "a" });
     export const modules = () => openModules({ dataDir: "data" });
     // @ts-expect-error: a folder is required
     export const wrong = () => openRuntime({});`,
  );
  const settings = ["--module", "nodenext", "--target", "esnext", "--strict", "--noEmit"];
  const types = ["--typeRoots", join(root, "node_modules/@types"), "--types", "node"];
  // Without skipLibCheck, so that the declarations of the packages are checked too.
  const checked = run(join(root, "node_modules/.bin/tsc"), [...settings, ...types, program], { cwd: folder, env });
  await expect(checked).resolves.toBe("");
});
