import { randomInt } from "node:crypto";
import { availableParallelism, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { formatTable } from "../bench/report/tables.ts";
import { buildProgram } from "../test/program.ts";
import type { Size } from "./context.ts";
import type { Drill } from "./drill.ts";
import { drills } from "./drills.ts";
import { writeReport } from "./report/document.ts";
import { figureRow, loadRow } from "./report/rows.ts";
import { isNetworkPrivate, runDrill, type Verdict } from "./run-drill.ts";

const docs = fileURLToPath(new URL("../docs", import.meta.url));

/**
 * In small sizes, drills wait most of their time, for processes that start and time that passes, and their limits of time are many
 * times what they measure. In full size, they measure the figures of docs/reliability.md.
 */
const drillsAtOnce: Readonly<Record<Size, number>> = { quick: 3, full: 1 };

const clearLine = process.stdout.isTTY ? "\r\u001b[K" : "";

const help = `Tries to break what the service promises: starts real services, and kills, floods and starves them.

Usage: npm run torture -- [options]

  --only NAME   Run this drill only; may be repeated
  --quick       Small sizes, three drills at a time: all drills together take about four minutes
  --seed N      Repeat the schedule of the run that printed this seed
  --minutes N   Duration of the soak: 60 for an hour
  --all         A drill that is skipped, because a program is not installed, counts as failed
  --write       Write the results of the drills into docs/reliability.md
  --list        List the drills and what they test
  --help        Print this help

All requests go to loopback. Each drill has a control, a planted fault that its check has to find, and a minimum load; it fails
without them. The exit code is 1 if a drill failed.
`;

const { values } = readFlags({
  options: {
    only: { type: "string", multiple: true },
    quick: { type: "boolean", default: false },
    seed: { type: "string" },
    minutes: { type: "string" },
    all: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

/** As parseArgs, but reports an invalid flag without a stack trace. */
function readFlags<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
}

function fail(message: string): never {
  process.stderr.write(`torture: ${message} (--help lists the flags)\n`);
  process.exit(2);
}

// Runs the exit handlers, which end the drill.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

if (values.help) {
  process.stdout.write(help);
} else if (values.list) {
  process.stdout.write(formatTable(drills.map(({ name, title }) => ({ NAME: name, tests: title }))));
} else {
  await runAll(readSelected(values.only), readNumber("seed", values.seed) ?? randomInt(2 ** 31));
}

function readSelected(names: readonly string[] | undefined): readonly Drill[] {
  const unknown = names?.find((name) => !drills.some((drill) => drill.name === name));
  return unknown === undefined
    ? drills.filter(({ name }) => names?.includes(name) ?? true)
    : fail(`there is no drill ${unknown}; --list lists them`);
}

function readNumber(flag: string, text: string | undefined, minimum = 0): number | undefined {
  const number = text === undefined ? undefined : Number(text);
  return number === undefined || (Number.isSafeInteger(number) && number >= minimum)
    ? number
    : fail(`--${flag}: an integer of at least ${minimum} is required`);
}

async function runAll(selected: readonly Drill[], seed: number): Promise<void> {
  const size: Size = values.quick ? "quick" : "full";
  const minutes = readNumber("minutes", values.minutes, 1);
  const loadAverage = (loadavg()[0] ?? 0).toFixed(1);
  process.stdout.write(
    `Node ${process.version}, ${process.platform}, ${availableParallelism()} cores, load average ${loadAverage}, ${size} size, seed ${seed}\n` +
      (isNetworkPrivate
        ? "Network: a namespace with loopback only\n"
        : "Network: that of the machine, since a namespace can't be created\n"),
  );
  const began = performance.now();
  const program = await buildProgram("torture");
  const finished: Verdict[] = [];
  const waiting = selected.values();
  const lanes = Array.from({ length: drillsAtOnce[size] }, async () => {
    for (const drill of waiting) {
      const progress = (text: string): void => showProgress(`${drill.name}: ${text}`);
      process.stdout.write(`${clearLine}\n${drill.name}: ${drill.title}\n`);
      const verdict = await runDrill(drill, { size, seed, minutes, progress }, program);
      printVerdict(verdict);
      finished.push(verdict);
      if (values.write) {
        await writeReport(docs, drills, finished, { size, seed, loadAverage });
      }
    }
  });
  await Promise.all(lanes);
  const verdicts = selected.flatMap((drill) => finished.filter((verdict) => verdict.drill === drill));
  const seconds = (performance.now() - began) / 1000;
  const count = (kind: Verdict["kind"]) => verdicts.filter((verdict) => verdict.kind === kind).length;
  const failed = count("failed") + (values.all ? count("skipped") : 0);
  process.stdout.write(`\n${formatTable(verdicts.map(summaryRow))}\n`);
  // Repeated here, because often only the end of the output is kept.
  process.stdout.write(verdicts.flatMap((verdict) => failuresOf(verdict, values.all)).join(""));
  process.stdout.write(`${count("skipped")} skipped, ${seconds.toFixed(0)} s, seed ${seed}\n`);
  process.stdout.write(`${count("passed")} passed, ${failed} failed\n`);
  process.exitCode = failed === 0 ? 0 : 1;
}

/** In place, on a terminal only. */
function showProgress(text: string): void {
  if (process.stdout.isTTY) {
    process.stdout.write(`\r  ${text}\u001b[K`);
  }
}

function printVerdict(verdict: Verdict): void {
  const { name } = verdict.drill;
  process.stdout.write(clearLine);
  if (verdict.kind === "skipped") {
    process.stdout.write(`\n${name} skipped: ${verdict.reason}\n`);
    return;
  }
  const { result, reasons, kind } = verdict;
  process.stdout.write(`\n${name} ${kind} after ${verdict.seconds.toFixed(1)} s\n`);
  process.stdout.write(formatTable([...(result?.loads.map(loadRow) ?? []), ...(result?.figures.map(figureRow) ?? [])]));
  process.stdout.write(result?.rows === undefined ? "" : `\n${formatTable(result.rows)}\n`);
  for (const { planted, found } of result?.controls ?? []) {
    process.stdout.write(`  control: ${planted}: ${found.length === 0 ? "MISSED" : "found"}\n`);
  }
  process.stdout.write(
    reasons
      .slice(0, 20)
      .map((reason) => `  FAILED: ${reason}\n`)
      .join(""),
  );
}

/** A line for each of the first reasons why it failed. */
function failuresOf(verdict: Verdict, failsIfSkipped: boolean): string[] {
  const reasons =
    verdict.kind === "failed"
      ? verdict.reasons.slice(0, 5)
      : verdict.kind === "skipped" && failsIfSkipped
        ? [verdict.reason]
        : [];
  return reasons.map((reason) => `failed: ${verdict.drill.name}: ${reason}\n`);
}

function summaryRow({ drill: { name, title }, kind, seconds }: Verdict) {
  return { drill: name, tests: title, verdict: kind, time: `${seconds.toFixed(1)} s` };
}
