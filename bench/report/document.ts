import { mkdir, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Benchmark, Effort, Result, Row } from "../benchmark.ts";
import { drawChart } from "./chart.ts";
import { rowOf } from "./verdict.ts";

export type RunFacts = Effort & {
  /** Of the machine before the run: what other work there was. */
  readonly loadAverage: string;
};

export type Measured = { readonly benchmark: Benchmark; readonly result: Result };

/** Writes performance.md into the folder, and its charts into performance/ there, which it empties before. */
export async function writeReport(folder: string, measured: readonly Measured[], run: RunFacts): Promise<void> {
  const charts = join(folder, "performance");
  await rm(charts, { recursive: true, force: true });
  await mkdir(charts, { recursive: true });
  for (const { benchmark, result } of measured.filter(({ result: { rows } }) => rows.length > 0)) {
    await writeFile(join(charts, `${benchmark.name}.svg`), drawChart(benchmark.title, result.chart));
  }
  await writeFile(join(folder, "performance.md"), formatReport(measured, run));
}

function formatReport(measured: readonly Measured[], { starts, rounds, sliceMs, loadAverage }: RunFacts): string {
  const figures = measured.flatMap(({ result }) => result.figures.map(rowOf));
  return `# Performance

Written by \`npm run bench -- --write\`; every number is of one run. It was on a machine with ${availableParallelism()} cores that other
work shares (load average ${loadAverage} before the run), with Node ${process.version} on ${process.platform} ${process.arch}. Ratios hold on
other machines where rates do not. Goals that are missed are analysed in [performance-analysis.md](performance-analysis.md).

## Figures

The median, and the quartiles of all measurements in parentheses. A goal is MET or MISSed by the median. Ratios are of
calls per second; beside them stands the same ratio by CPU time per call, which other work on the machine changes less.

${formatMarkdownTable(figures)}

## How it is measured

- The service is started by its command with its default options and one user, metrics and request log included;
  50 MB bodies and 1,000 streams are above its default limits, which are raised for them. Benchmarks of the transcoder
  say so in their titles. Each peer is a server in a process of its own.
- The load comes from another process, over loopback: of HTTP/1.1 64 connections with one request at a time each (of
  2 MB bodies 8), of gRPC 4 connections with 16 calls at a time each. It sends bytes that were made once, checks
  that each answer has the status and the length of the first one, and does nothing else.
- All contenders of a benchmark run at the same time and are loaded in turn, in slices of ${sliceMs} ms, ${rounds} rounds after each of
  ${starts} starts. A ratio compares two slices of the same round, so that other work on the machine falls on both.
- "CPU used" is what the server and the process that loads it took of one core: where the server took much less than
  100 %, its rate was limited by something else, such as other work of the machine.
- CPU per call is user and system time of the whole server process, all its threads, by the calls of the slice. Servers in
  Go use all cores, those on Node mostly one.
- The answer of GetLogin never changes, and the service keeps its bytes; the peers encode it for each call. "GetSettings
  with a token" shows what a call costs whose answer is encoded each time.
- A stall is the longest interval between two turns of the event loop, by Node's \`monitorEventLoopDelay\` with a resolution of
  1 ms, which is the least that it can show.
- A stream's memory is what the resident set of the process grew by, garbage collected before and after.

${measured.map(formatSection).join("\n")}`;
}

function formatSection({ benchmark: { name, title }, result: { rows, notes = [] } }: Measured): string {
  const remarks = notes.map((note) => `- ${note}\n`).join("");
  const results = rows.length === 0 ? "" : `![${title}](performance/${name}.svg)\n\n${formatMarkdownTable(rows)}\n`;
  return `## ${title}

${results}${remarks === "" ? "" : `\n${remarks}`}`;
}

function formatMarkdownTable(rows: readonly Row[]): string {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(keys),
    `|${"---|".repeat(keys.length)}`,
    ...rows.map((row) => line(keys.map((key) => row[key] ?? ""))),
  ].join("\n");
}
