import { execFile } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const folder = join(import.meta.dirname, "..");

test("the example of the README prints what the README says", async () => {
  const readme = await readFile(join(folder, "README.md"), "utf8");
  const [, code = ""] = /```js file=list-nodes\.js\n([^]*?)```/.exec(readme) ?? [];
  const [, output = ""] = /```text\n([^]*?)```/.exec(readme) ?? [];
  // In the package, so that it imports itself by its name.
  const file = join(folder, `example-${process.pid}.js`);
  await writeFile(file, code);
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file]);
    expect(stdout.trim()).toBe(output.trim());
  } finally {
    await rm(file);
  }
});
