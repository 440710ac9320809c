import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { walkDirectory } from "../src/directories.ts";
import { createFolder } from "../../../test/store/builders.ts";

test("a directory is walked without following its links", async () => {
  await using folder = await createFolder();
  const inside = join(folder.path, "inside");
  await mkdir(join(inside, "deeper"), { recursive: true });
  await writeFile(join(folder.path, "outside"), "");
  await writeFile(join(inside, "deeper/file"), "");
  // If they were followed, 2^40 directories would be read.
  await symlink("..", join(inside, "one"));
  await symlink("..", join(inside, "other"));
  const found = [...walkDirectory(inside)].map(({ parentPath, name }) => relative(inside, join(parentPath, name)));
  expect(found.toSorted()).toEqual(["deeper", "deeper/file", "one", "other"]);
});
