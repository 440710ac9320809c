import { mkdir, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { drawChart } from "./chart.ts";
import { formatMarkdownTable } from "./tables.ts";
import { rowOf } from "./verdict.ts";

export type RunFacts = Effort & {
  /** The load average of the machine before the run. */
  readonly loadAverage: string;
};

/** Benchmarks that are written to one document. */
export type Suite = {
  readonly benchmarks: readonly Benchmark[];
  /** Where performance.md is, with its charts in performance/. */
  readonly folder: string;
  /** What is measured. */
  readonly subject: string;
  /** The document that explains missed goals. */
  readonly analysis: string | undefined;
};

export type Measured = { readonly benchmark: Benchmark; readonly result: Result };

/** Writes performance.md to the folder of the suite, and its charts to a new subfolder. */
export async function writeReport(suite: Suite, measured: readonly Measured[], run: RunFacts): Promise<void> {
  const { folder } = suite;
  const charts = join(folder, "performance");
  await rm(charts, { recursive: true, force: true });
  await mkdir(charts, { recursive: true });
  for (const { benchmark, result } of measured.filter(({ result: { rows } }) => rows.length > 0)) {
    await writeFile(join(charts, `${benchmark.name}.svg`), drawChart(benchmark.title, result.chart));
  }
  await writeFile(join(folder, "performance.md"), formatReport(suite, measured, run));
}

function formatReport(
  { subject, analysis }: Suite,
  measured: readonly Measured[],
  { starts, rounds, sliceMs, loadAverage }: RunFacts,
): string {
  const figures = measured.flatMap(({ result }) => result.figures.map(rowOf));
  return `# Performance

Written by \`npm run bench -- --write\`; all numbers are of one run. The machine had ${availableParallelism()} cores and other
work (load average ${loadAverage} before the run), with Node ${process.version} on ${process.platform} ${process.arch}. Unlike rates, ratios
can be compared across machines.${analysis === undefined ? "" : ` Goals that are missed are analysed in [${analysis}](${analysis}).`}

## Figures

The median of all measurements, with the quartiles in parentheses. The median decides whether a goal is MET or MISSed. Ratios
are of calls per second; "by CPU" is the ratio of CPU times per call, which depends less on other work of the machine.

${formatMarkdownTable(figures)}

## How it is measured

- ${subject}
- Each contender is a server in a separate process.
- Another process generates the load over loopback: for HTTP/1.1 on 64 connections with one request at a time (8 for
  2 MB bodies), for gRPC on 4 connections with 16 concurrent calls. It sends bytes that were formatted once, and only checks
  that each response has the status and length of the first one.
- All contenders of a benchmark run at the same time and are loaded in turn, in slices of ${sliceMs} ms, ${rounds} rounds after each of
  ${starts} starts. A ratio compares two slices of the same round, so that other work of the machine affects both.
- "CPU used" is the share of one core that the server and the load process used. If the server used much less than 100 %,
  its rate was limited by something else, such as other work of the machine.
- CPU per call is user and system time of all threads of the server, divided by the calls of the slice. Servers in Go use
  all cores, those on Node mostly one.
- A stall is the longest interval between two iterations of the event loop, measured with \`monitorEventLoopDelay\` at its
  finest resolution of 1 ms.
- The memory of a stream is the growth of the resident set of the process, measured after garbage collections.

${measured.map(formatSection).join("\n")}`;
}

function formatSection({ benchmark: { name, title }, result: { rows, notes = [] } }: Measured): string {
  const remarks = notes.map((note) => `- ${note}\n`).join("");
  const results = rows.length === 0 ? "" : `![${title}](performance/${name}.svg)\n\n${formatMarkdownTable(rows)}\n`;
  return `## ${title}

${results}${remarks === "" ? "" : `\n${remarks}`}`;
}
