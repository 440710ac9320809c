import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { mainPath } from "../cli/run-cli.ts";

const page = await readFile(new URL("../../docs/embedding.md", import.meta.url), "utf8");

/** The first block in this language, which may be part of a list. */
function block(language: string): string {
  return new RegExp(`^ *\`\`\`${language}\n(.*?)^ *\`\`\``, "ms").exec(page)?.[1] ?? "";
}

test.each([
  ["ts", block("text")],
  ["js", "true\n"],
])("the program of docs/embedding.md in %s prints what the page says", async (language, output) => {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-embedding-"));
  try {
    const library = new URL("../index.js", pathToFileURL(mainPath)).href;
    const program = block(language).replace('from "flowgate"', `from ${JSON.stringify(library)}`);
    await writeFile(join(folder, "program.ts"), program);
    const { stdout } = await promisify(execFile)(process.execPath, ["program.ts"], { cwd: folder });
    // On a machine without bubblewrap, the log warns that the flows are isolated less.
    const printed = stdout.replaceAll(/^\{"level":"warn".*"source":"runtime".*\n/gm, "");
    expect(printed).toBe(output);
  } finally {
    await rm(folder, { recursive: true });
  }
});
