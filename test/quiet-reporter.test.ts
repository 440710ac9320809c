import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const own = (name: string): string => JSON.stringify(join(root, name));

/** The output of vitest for a file of tests, in the reporter of `npm test`. */
async function report(file: string): Promise<string> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-reporter-"));
  await writeFile(join(folder.path, "one.test.ts"), file);
  const vitest = join(root, "node_modules/vitest/vitest.mjs");
  const args = [vitest, "run", "--root", folder.path, "--reporter", join(root, "test/quiet-reporter.ts")];
  return await new Promise((resolve) =>
    execFile(process.execPath, args, { cwd: root }, (_, stdout, stderr) =>
      resolve(stripVTControlCharacters(`${stdout}${stderr}`)),
    ),
  );
}

test("failures and skipped tests are reported, and nothing of tests that pass", async () => {
  const shown = await report(`
    import { describe, expect, test } from ${own("node_modules/vitest/dist/index.js")};
    import { needs } from ${own("test/needs.ts")};
    test("passes", () => console.error(new Error("of a test that passes")));
    test("fails", () => {
      console.error("of a test that fails");
      expect(1).toBe(2);
    });
    test("needs it", needs("a program", false), () => {});
    describe("a group", needs("a program", false), () => void test("needs it too", () => {}));
    test("has it", needs("a program", true), () => {});
    test("decides later", (context) => context.skip("it is late"));
    test.skip("is off", () => {});
  `);
  expect(shown).toContain("expected 1 to be 2");
  expect(shown).toContain("of a test that fails");
  expect(shown).not.toContain("of a test that passes");
  expect(shown).not.toMatch(/> (?:passes|has it)/);
  expect(shown.match(/^skipped .*$/gm)).toEqual([
    "skipped 2 tests: they need a program, which is not here",
    "skipped 1 test: it is late",
    "skipped 1 test: one.test.ts > is off, without a reason",
  ]);
  expect(shown).toMatch(/Tests +1 failed \| 2 passed \| 4 skipped \(7\)/);
});
