import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { reportChecks } from "../scripts/ci-report.ts";

async function report(files: Readonly<Record<string, string>>): Promise<ReturnType<typeof reportChecks>> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-ci-"));
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder.path, name), content);
  }
  return reportChecks(folder.path);
}

function testsOf(...results: readonly { status: string; failureMessages?: readonly string[] }[]): string {
  return JSON.stringify({
    numTotalTests: results.length,
    numPassedTests: results.filter(({ status }) => status === "passed").length,
    testResults: [
      {
        name: join(process.cwd(), "test/one.test.ts"),
        message: "",
        assertionResults: results.map((result, at) => ({ fullName: `test ${at + 1}`, failureMessages: [], ...result })),
      },
    ],
  });
}

test("counts tests, drills and checks", async () => {
  const { text, passed } = await report({
    results: "passed\t3\ttypes\npassed\t340\tunit tests\npassed\t90\ttorture\n",
    "types.log": "",
    "unit-tests.log": "",
    "unit-tests.json": testsOf({ status: "passed" }, { status: "passed" }),
    "torture.log": "soak: passed\n\u001b[32m20 passed, 0 failed\u001b[39m\n",
  });
  expect(text).toBe("seconds: types 3, unit tests 340, torture 90\n25 passed, 0 failed\n");
  expect(passed).toBe(true);
});

test("repeats the failures in few lines: of tests, of drills, and the end of any other output", async () => {
  const message = `Error: expected 1\u001b[31m to be 2\n${"    at test.ts\n".repeat(20)}`;
  const { text, passed } = await report({
    results: "failed\t3\ttypes\nfailed\t340\tunit tests\nfailed\t90\ttorture\n",
    "types.log": `${"a line\n".repeat(20)}error TS1\n\n`,
    "unit-tests.log": "",
    "unit-tests.json": testsOf(
      { status: "passed" },
      { status: "failed", failureMessages: [message] },
      { status: "skipped" },
    ),
    "torture.log": "a line\nfailed: soak: memory has grown by 100 MiB\n19 passed, 1 failed\n",
  });
  expect(text.split("\n")).toEqual([
    "== types FAILED",
    ...Array.from({ length: 4 }, () => "a line"),
    "error TS1",
    "== unit tests FAILED",
    "test/one.test.ts > test 2 failed: Error: expected 1 to be 2",
    ...Array.from({ length: 4 }, () => "    at test.ts"),
    "test/one.test.ts > test 3 skipped: ",
    "== torture FAILED",
    "failed: soak: memory has grown by 100 MiB",
    "seconds: types 3, unit tests 340, torture 90",
    "20 passed, 6 failed",
    "",
  ]);
  expect(passed).toBe(false);
});

test("is short, whatever has failed", async () => {
  const failures = Array.from({ length: 100 }, () => ({ status: "failed", failureMessages: ["x".repeat(1_000)] }));
  const { text } = await report({ results: "failed\t3\ttests\n", "tests.log": "", "tests.json": testsOf(...failures) });
  const lines = text.trim().split("\n");
  expect(lines).toHaveLength(53);
  expect(lines[50]).toBe("and 51 more lines");
  expect(Math.max(...lines.map(({ length }) => length))).toBe(160);
});
