import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createFolder } from "../../../test/store/builders.ts";
import { readExample } from "./readme.ts";

test("the example of the README prints what the README says, with the child from its sources", async () => {
  await using folder = await createFolder();
  const { code, output } = await readExample();
  // In the package, so that it imports itself by its name.
  const file = join(import.meta.dirname, `../example-${process.pid}.js`);
  await writeFile(file, code);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: folder.path });
    expect(stdout).toBe(output);
  } finally {
    await rm(file);
  }
});
