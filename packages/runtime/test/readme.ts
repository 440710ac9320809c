import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** The program of the README, and what the README says that it prints. */
export async function readExample(): Promise<{ readonly code: string; readonly output: string }> {
  const readme = await readFile(join(import.meta.dirname, "../README.md"), "utf8");
  const [, code = ""] = /```js file=hello\.js\n([^]*?)```/.exec(readme) ?? [];
  const [, output = ""] = /```text\n([^]*?)```/.exec(readme) ?? [];
  return { code, output };
}
