import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { mainPath } from "./cli/run-cli.ts";

const page = await readFile(new URL("../docs/embedding.md", import.meta.url), "utf8");

function block(language: string): string {
  return new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "ms").exec(page)?.[1] ?? "";
}

test("the program of docs/embedding.md prints what the page says", async () => {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-embedding-"));
  try {
    const library = new URL("../index.js", pathToFileURL(mainPath)).href;
    const program = block("ts").replace('from "flowgate"', `from ${JSON.stringify(library)}`);
    await writeFile(join(folder, "program.ts"), program);
    const { stdout } = await promisify(execFile)(process.execPath, ["program.ts"], { cwd: folder });
    expect(stdout).toBe(block("text"));
  } finally {
    await rm(folder, { recursive: true });
  }
});
