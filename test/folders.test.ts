import { globSync } from "node:fs";
import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { findCycle, readFolderGraph } from "./folders.ts";

const root = join(import.meta.dirname, "..");
const sources = ["src", ...globSync("packages/*/src", { cwd: root })];

test.each(sources)("the folders of %s do not import each other in a circle", (source) => {
  expect(findCycle(readFolderGraph(join(root, source)))).toBeUndefined();
});

test("a circle of folders is found, also one of types", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-folders-"));
  const files = {
    "index.ts": 'export * from "./a/one.ts";',
    "a/one.ts": 'import type { Two } from "../b/two.ts";',
    "b/two.ts": 'export { three } from "./c/three.ts";',
    "b/c/three.ts": 'const load = () => import("../../a/other.ts");',
    "a/other.ts": "export {};",
  };
  for (const [file, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder.path, file)), { recursive: true });
    await writeFile(join(folder.path, file), text);
  }
  expect(findCycle(readFolderGraph(folder.path))).toEqual(["a", "b/two.ts", "b/c", "a"]);
});
