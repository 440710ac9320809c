import { mkdtemp } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { type Benchmark, type Effort, type Goal, isMet, type Row } from "./benchmark.ts";
import { polling } from "./polling.ts";
import { summarizeProfiles } from "./profile.ts";
import { slowClients } from "./slow-clients.ts";
import { stall } from "./stall.ts";
import { formatTable } from "./table.ts";
import { connect, flows, login, settings } from "./throughput.ts";
import { transcodedGet, transcodedGetConnect, transcodedPost, transcodedPostConnect } from "./transcoding.ts";
import { largeBody } from "./transcoding-body.ts";
import { matching } from "./transcoding-matcher.ts";

const benchmarks = [
  login,
  flows,
  polling,
  stall,
  slowClients,
  settings,
  connect,
  transcodedGet,
  transcodedPost,
  transcodedGetConnect,
  transcodedPostConnect,
  matching,
  largeBody,
];

const help = `Measures the service beside what it is compared with, in one run: ratios hold where numbers do not.

Usage: npm run bench -- [options]

  --only NAME   One of them; may be repeated
  --quick       Fewer and shorter rounds
  --profile     Take a CPU profile of the service, and print where its time goes; it slows the service down
  --help        Print this

${formatTable(benchmarks.map(({ name, title, goal }) => ({ NAME: name, goal: describeGoal(goal), measures: title })))}
A goal that is missed is printed as MISS; the exit code is 0 all the same.
`;

const { values } = readFlags({
  options: {
    only: { type: "string", multiple: true },
    quick: { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

/** As parseArgs, but a wrong flag is a line and not a stack. */
function readFlags<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)} (--help tells the flags)\n`);
    process.exit(2);
  }
}

const unknown = values.only?.find((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (values.help) {
  process.stdout.write(help);
} else if (unknown === undefined) {
  await runAll(benchmarks.filter(({ name }) => values.only?.includes(name) ?? true));
} else {
  process.stderr.write(`There is no benchmark ${unknown}.\n\n${help}`);
  process.exitCode = 2;
}

async function runAll(selected: readonly Benchmark[]): Promise<void> {
  process.stdout.write(`Node ${process.version}, ${process.platform}, ${availableParallelism()} cores\n`);
  const summary: Row[] = [];
  for (const benchmark of selected) {
    const { name, title, goal } = benchmark;
    process.stdout.write(`\n${name}: ${title}\n`);
    const effort = await effortOf(name);
    const { value, rows } = await benchmark.run(effort);
    process.stdout.write(formatTable(rows));
    summary.push({
      name,
      result: `${value.toFixed(2)} ${goal?.unit ?? "x"}`,
      goal: describeGoal(goal),
      "": goal === undefined ? "" : isMet(goal, value) ? "pass" : "MISS",
    });
    if (effort.profileDir !== undefined) {
      await printProfile(effort.profileDir);
    }
  }
  process.stdout.write(`\n${formatTable(summary)}`);
}

async function effortOf(name: string): Promise<Effort> {
  return {
    starts: values.quick ? 1 : 3,
    rounds: values.quick ? 3 : 5,
    secondsARun: values.quick ? 1 : 2,
    profileDir: values.profile ? await mkdtemp(join(tmpdir(), `flowgate-profile-${name}-`)) : undefined,
  };
}

async function printProfile(dir: string): Promise<void> {
  const { self, total } = await summarizeProfiles(dir, 30);
  process.stdout.write(`\n${formatTable(self)}\n${formatTable(total)}\n  The profile is in ${dir}\n`);
}

function describeGoal(goal: Goal | undefined): string {
  return goal === undefined ? "(information)" : `${goal.kind === "atLeast" ? ">=" : "<="} ${goal.value} ${goal.unit}`;
}
