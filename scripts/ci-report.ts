// The end of the output of .ci/run, of which often nothing else is kept: a few lines about each failure, the seconds that each check took,
// and "N passed, N failed". node scripts/ci-report.ts FOLDER
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

type Check = { readonly name: string; readonly passed: boolean; readonly seconds: number };

/** What is read of a report of vitest in JSON. */
type TestReport = {
  readonly numPassedTests: number;
  readonly numTotalTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
};

const longestLine = 160;
const linesOfFailure = 5;
const linesOfAll = 50;

/**
 * Reports the checks of a folder: `results`, with a line of outcome, seconds and name for each; the output `NAME.log` of each; and `NAME.json`, the
 * report of its tests, if it has any. Each test and drill counts, and each other check. What was skipped has failed.
 */
export function reportChecks(folder: string): { readonly text: string; readonly passed: boolean } {
  const checks = readFileSync(join(folder, "results"), "utf8").trim().split("\n").map(parseCheck);
  const counted = checks.map((check) => ({ ...countOf(folder, check), check }));
  const failures = counted.flatMap(({ check, failed }) => (failed === 0 ? [] : describeFailure(folder, check)));
  const passed = counted.reduce((sum, count) => sum + count.passed, 0);
  const failed = counted.reduce((sum, count) => sum + count.failed, 0);
  const shown = failures.slice(0, linesOfAll);
  const lines = [
    ...shown,
    ...(failures.length > shown.length ? [`and ${failures.length - shown.length} more lines`] : []),
    `seconds: ${checks.map(({ name, seconds }) => `${name} ${seconds}`).join(", ")}`,
    `${passed} passed, ${failed} failed`,
  ];
  return { text: `${lines.join("\n")}\n`, passed: failed === 0 };
}

function parseCheck(line: string): Check {
  const [outcome, seconds, name = ""] = line.split("\t");
  return { name, passed: outcome === "passed", seconds: Number(seconds) };
}

function countOf(folder: string, { name, passed }: Check): { readonly passed: number; readonly failed: number } {
  const own = passed ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
  const tests = readTests(folder, name);
  if (tests !== undefined) {
    const failed = tests.numTotalTests - tests.numPassedTests;
    return { passed: own.passed + tests.numPassedTests, failed: own.failed + failed };
  }
  const [, drills = 0, failedDrills = 0] = /^(\d+) passed, (\d+) failed$/m.exec(readLog(folder, name)) ?? [];
  return { passed: own.passed + Number(drills), failed: own.failed + Number(failedDrills) };
}

/** The tests or drills that failed, or else the end of the output. */
function describeFailure(folder: string, { name }: Check): string[] {
  const tests = readTests(folder, name)?.testResults.flatMap(describeTests) ?? [];
  const log = readLog(folder, name).split("\n");
  const reasons = tests.length > 0 ? tests : log.filter((line) => line.startsWith("failed: "));
  const details = reasons.length > 0 ? reasons : log.filter((line) => line.trim() !== "").slice(-linesOfFailure);
  return [`== ${name} FAILED`, ...details.map((line) => line.slice(0, longestLine))];
}

function describeTests({ name, message, assertionResults }: TestReport["testResults"][number]): string[] {
  const file = relative(".", name);
  const failed = assertionResults.filter(({ status }) => status !== "passed");
  const ofFile = message !== "" && failed.length === 0 ? [`${file} failed: ${message}`] : [];
  const ofTests = failed.map(
    ({ status, fullName, failureMessages }) => `${file} > ${fullName} ${status}: ${failureMessages.join("\n")}`,
  );
  return [...ofFile, ...ofTests].flatMap((text) =>
    stripVTControlCharacters(text)
      .split("\n")
      .filter((line) => line.trim() !== "" && !line.includes("/node_modules/"))
      .slice(0, linesOfFailure),
  );
}

function readTests(folder: string, name: string): TestReport | undefined {
  const path = join(folder, `${fileName(name)}.json`);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as TestReport) : undefined;
}

function readLog(folder: string, name: string): string {
  return stripVTControlCharacters(readFileSync(join(folder, `${fileName(name)}.log`), "utf8"));
}

/** As .ci/run names them. */
function fileName(check: string): string {
  return check.replaceAll(" ", "-");
}

const [folder] = process.argv.slice(2);
if (import.meta.main && folder !== undefined) {
  const { text, passed } = reportChecks(folder);
  process.stdout.write(text);
  process.exitCode = passed ? 0 : 1;
}
