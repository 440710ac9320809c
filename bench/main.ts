import { mkdtemp } from "node:fs/promises";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs, type ParseArgsConfig } from "node:util";
import type { Benchmark, Effort, Result } from "./benchmark.ts";
import { body } from "./benchmarks/body.ts";
import { deployment } from "./benchmarks/deployment.ts";
import { diff } from "./benchmarks/diff.ts";
import { editor } from "./benchmarks/editor.ts";
import { fanOut } from "./benchmarks/fan-out.ts";
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
import { get, honoGet, honoPost, post } from "./benchmarks/gateway.ts";
import { stores } from "./benchmarks/stores.ts";
import { connectJson, grpc, grpcWeb } from "./benchmarks/unary.ts";
import { watch } from "./benchmarks/watch.ts";
import { summarizeProfiles } from "./profile.ts";
import { type Measured, type Suite, writeReport } from "./report/document.ts";
import { rowOf } from "./report/verdict.ts";
import { formatTable } from "./report/tables.ts";

const gateway: Suite = {
  benchmarks: [post, get, honoPost, honoGet, ...libraryBenchmarks, matching, body],
  folder: fileURLToPath(new URL("../packages/gateway/docs", import.meta.url)),
  subject:
    "The gateway library alone, without the service. Peers on Node serve the same implementation; stock Connect uses its adapter for the same server.",
  reasons: [],
};

const service: Suite = {
  benchmarks: [
    login,
    settings,
    connectJson,
    grpc,
    grpcWeb,
    readFlows,
    notModified,
    deployment,
    largeDeployment,
    polling,
    watch,
    fanOut,
    start,
    editor,
    history,
    stores,
    diff,
    slowClients,
  ],
  folder: fileURLToPath(new URL("../docs", import.meta.url)),
  subject:
    "The service runs with one user and default options, including metrics and the request log. Limits are raised for 50 MB bodies and 1,000 streams. " +
    'It caches the constant response of GetLogin, which the peers encode for each call; the response of "GetSettings with a token" is encoded each time.',
  reasons: [
    "**Bare Fastify route and raw `node:http`:** authentication takes 10 % of the cycles of a small call, the `write` system call 27 to 31 %. No function of this repository takes more than 1 % by itself.",
    "**Servers in Go:** they use up to 1.5 cores, a Node process about one.",
    "**gzip:** the compressed document is cached per revision and 7.5 times smaller, so that it cannot reach ten times the rate of identity.",
    "**Stalls in deployments:** full garbage collections of 4 to 11 ms, which V8 starts because of memory outside its heap. Longer stalls are waits for a core on a busy machine: give the service a core or a CPU weight of its own.",
    "**Watch streams:** a stream takes 9.9 KiB of V8's heap and 0.8 KiB of nghttp2's memory; the growth of the resident set depends on how much memory was free before.",
    "**Start:** most of the time is spent on loading and compiling code. The journal's thread takes 8 MiB and 0.09 s of CPU time; `live.journal.size: 0` saves both. Node-RED's listener adds 7 MiB and the opened editor another 16 MiB (`npm run bench -- --only editor`).",
  ],
};

const suites: Readonly<Record<string, Suite>> = { gateway, service };
const benchmarks = Object.values(suites).flatMap((suite) => suite.benchmarks);

const help = `Measures the service, the gateway library and their peers in one run, since ratios are more portable than absolute numbers.

Usage: npm run bench -- [options]

  --suite NAME  Run the benchmarks of the gateway library (gateway) or of the service (service) only
  --only NAME   Run this benchmark only; may be repeated
  --quick       Fewer and shorter rounds
  --write       Write performance.md and its charts to the documents of each suite that runs: docs, packages/gateway/docs
  --profile     Take a CPU profile of the service, and print its summary; this slows the service down
  --help        Print this help

${formatTable(benchmarks.map(({ name, title }) => ({ NAME: name, measures: title })))}
Servers in Go are built if Go is installed, and omitted otherwise. A missed goal is printed as MISS and does not change the
exit code, which is 1 if a benchmark failed.
`;

const { values } = readFlags({
  options: {
    suite: { type: "string" },
    only: { type: "string", multiple: true },
    quick: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
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
  process.stderr.write(`bench: ${message} (--help lists the flags)\n`);
  process.exit(2);
}

// Runs the exit handlers, which stop the servers.
process.once("SIGINT", () => process.exit(130));
process.once("SIGTERM", () => process.exit(143));

const unknown = values.only?.find((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (values.help) {
  process.stdout.write(help);
} else if (unknown !== undefined) {
  fail(`--only: there is no benchmark ${unknown}`);
} else if (values.suite !== undefined && suites[values.suite] === undefined) {
  fail(`--suite: must be one of: ${Object.keys(suites).join(", ")}`);
} else if (values.write && values.only !== undefined) {
  fail("--write: a document is about all benchmarks of a suite, so that --only can't be used");
} else {
  await runAll(Object.entries(suites).flatMap(([name, suite]) => ((values.suite ?? name) === name ? [suite] : [])));
}

async function runAll(selected: readonly Suite[]): Promise<void> {
  const loadAverage = (loadavg()[0] ?? 0).toFixed(1);
  process.stdout.write(
    `Node ${process.version}, ${process.platform}, ${availableParallelism()} cores, load average ${loadAverage}\n`,
  );
  const effort: Effort = values.quick
    ? { starts: 1, rounds: 4, sliceMs: 400, warmUpCalls: 10_000, warmUpMs: 3_000, profileDir: undefined }
    : { starts: 3, rounds: 8, sliceMs: 500, warmUpCalls: 30_000, warmUpMs: 8_000, profileDir: undefined };
  const measured: Measured[] = [];
  for (const suite of selected) {
    const ofSuite = await runSuite(suite, effort);
    if (values.write) {
      await writeReport(suite, ofSuite, { ...effort, loadAverage });
    }
    measured.push(...ofSuite);
  }
  if (measured.length > 1) {
    process.stdout.write(`\n${formatTable(measured.flatMap(({ result }) => result.figures.map(rowOf)))}`);
  }
}

async function runSuite(suite: Suite, effort: Effort): Promise<Measured[]> {
  const measured: Measured[] = [];
  for (const benchmark of suite.benchmarks.filter(({ name }) => values.only?.includes(name) ?? true)) {
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
  return measured;
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
