import { mkdtemp } from "node:fs/promises";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, type ParseArgsConfig } from "node:util";
import type { Benchmark, Effort, Result } from "./benchmark.ts";
import { body } from "./benchmarks/body.ts";
import { deployment } from "./benchmarks/deployment.ts";
import { diff } from "./benchmarks/diff.ts";
import { history } from "./benchmarks/history.ts";
import { largeDeployment } from "./benchmarks/large-deployment.ts";
import { libraryBenchmarks } from "./benchmarks/library.ts";
import { login } from "./benchmarks/login.ts";
import { matching } from "./benchmarks/matching.ts";
import { polling } from "./benchmarks/polling.ts";
import { notModified, readFlows } from "./benchmarks/read-flows.ts";
import { settings } from "./benchmarks/settings.ts";
import { slowClients } from "./benchmarks/slow-clients.ts";
import { start } from "./benchmarks/start.ts";
import { get, honoGet, honoPost, post } from "./benchmarks/transcoder.ts";
import { stores } from "./benchmarks/stores.ts";
import { connectJson, grpc, grpcWeb } from "./benchmarks/unary.ts";
import { watch } from "./benchmarks/watch.ts";
import { summarizeProfiles } from "./profile.ts";
import { type Measured, writeReport } from "./report/document.ts";
import { rowOf } from "./report/verdict.ts";
import { formatTable } from "./table.ts";

const benchmarks = [
  login,
  post,
  get,
  honoPost,
  honoGet,
  settings,
  connectJson,
  grpc,
  grpcWeb,
  ...libraryBenchmarks,
  readFlows,
  notModified,
  deployment,
  largeDeployment,
  polling,
  watch,
  start,
  history,
  stores,
  diff,
  slowClients,
  matching,
  body,
];

const docs = fileURLToPath(new URL("../docs", import.meta.url));

const help = `Measures the service and its peers in one run, since ratios are more portable than absolute numbers.

Usage: npm run bench -- [options]

  --only NAME   Run this benchmark only; may be repeated
  --quick       Fewer and shorter rounds
  --write       Write docs/performance.md and its charts
  --out FOLDER  With --write: write them there instead of docs
  --profile     Take a CPU profile of the service, and print its summary; this slows the service down
  --help        Print this help

${formatTable(benchmarks.map(({ name, title }) => ({ NAME: name, measures: title })))}
Servers in Go are built if Go is installed, and omitted otherwise. A missed goal is printed as MISS and does not change the
exit code, which is 1 if a benchmark failed.
`;

const { values } = readFlags({
  options: {
    only: { type: "string", multiple: true },
    quick: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    out: { type: "string", default: docs },
    profile: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

/** As parseArgs, but reports an invalid flag without a stack trace. */
function readFlags<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)} (--help lists the flags)\n`);
    process.exit(2);
  }
}

// Runs the exit handlers, which stop the servers.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

const unknown = values.only?.find((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (values.help) {
  process.stdout.write(help);
} else if (unknown === undefined) {
  await runAll(benchmarks.filter(({ name }) => values.only?.includes(name) ?? true));
} else {
  process.stderr.write(`Unknown benchmark: ${unknown}.\n\n${help}`);
  process.exitCode = 2;
}

async function runAll(selected: readonly Benchmark[]): Promise<void> {
  const loadAverage = (loadavg()[0] ?? 0).toFixed(1);
  process.stdout.write(
    `Node ${process.version}, ${process.platform}, ${availableParallelism()} cores, load average ${loadAverage}\n`,
  );
  const effort: Effort = values.quick
    ? { starts: 1, rounds: 4, sliceMs: 400, warmUpCalls: 10_000, warmUpMs: 3_000, profileDir: undefined }
    : { starts: 3, rounds: 8, sliceMs: 500, warmUpCalls: 30_000, warmUpMs: 8_000, profileDir: undefined };
  const measured: Measured[] = [];
  for (const benchmark of selected) {
    const { name, title } = benchmark;
    process.stdout.write(`\n${name}: ${title}\n`);
    const profileDir = values.profile ? await mkdtemp(join(tmpdir(), `flowgate-profile-${name}-`)) : undefined;
    const result = await runOrNote(benchmark, { ...effort, profileDir });
    process.stdout.write(`${formatTable(result.rows)}\n${formatTable(result.figures.map(rowOf))}`);
    process.stdout.write((result.notes ?? []).map((note) => `  ${note}\n`).join(""));
    measured.push({ benchmark, result });
    if (profileDir !== undefined) {
      await printProfile(profileDir);
    }
  }
  if (measured.length > 1) {
    process.stdout.write(`\n${formatTable(measured.flatMap(({ result }) => result.figures.map(rowOf)))}`);
  }
  if (values.write) {
    await writeReport(values.out, measured, { ...effort, loadAverage });
  }
}

/** Runs a benchmark; a failure is a note in its result, so that the other benchmarks still run. */
async function runOrNote(benchmark: Benchmark, effort: Effort): Promise<Result> {
  try {
    return await benchmark.run(effort);
  } catch (error) {
    process.exitCode = 1;
    const notes = [`failed: ${error instanceof Error ? error.message : String(error)}`];
    return { figures: [{ title: benchmark.title, unit: "x", values: [] }], rows: [], chart: [], notes };
  }
}

async function printProfile(dir: string): Promise<void> {
  const { self, total } = await summarizeProfiles(dir, 30);
  process.stdout.write(`\n${formatTable(self)}\n${formatTable(total)}\n  The profile is in ${dir}\n`);
}
