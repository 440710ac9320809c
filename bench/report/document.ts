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
  /** Reasons for missed goals, one for each. */
  readonly reasons: readonly string[];
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
  { subject, reasons }: Suite,
  measured: readonly Measured[],
  { starts, rounds, sliceMs, loadAverage }: RunFacts,
): string {
  const figures = measured.flatMap(({ result }) => result.figures.map(rowOf));
  return `# Performance

Written by \`npm run bench -- --write\`. All figures come from one run on a shared machine with ${availableParallelism()} cores (load average
${loadAverage} before the run), Node ${process.version}, ${process.platform} ${process.arch}. Ratios can be compared across machines, rates cannot.

## Figures

Medians, with quartiles in parentheses. The median decides whether a goal is MET or MISSed. Ratios compare calls per second; "by
CPU" compares CPU time per call, which depends less on other load of the machine.

${formatMarkdownTable(figures)}
${reasons.length === 0 ? "" : `\n## Missed goals\n\n${reasons.map((reason) => `- ${reason}\n`).join("")}`}
## How it is measured

- ${subject}
- Each contender is a server process. All contenders of a benchmark run at the same time and are loaded in turn, in slices of ${sliceMs} ms,
  ${rounds} rounds after each of ${starts} starts. A ratio compares two slices of the same round.
- Another process generates the load over loopback: 64 connections with one request at a time for HTTP/1.1 (8 for 2 MB bodies), 4
  connections with 16 concurrent calls for gRPC. Requests are formatted once; responses are checked for status and length.
- CPU per call is user and system time of all threads of the server, divided by calls.
- A stall is the longest interval between two iterations of the event loop (\`monitorEventLoopDelay\`, resolution 1 ms).
- The memory of a stream is the growth of the resident set, measured after garbage collections.

The charts show medians; \`npm run bench\` prints rates, quartiles and CPU time.

${measured.map(formatSection).join("\n")}`;
}

function formatSection({ benchmark: { name, title }, result: { rows, notes = [] } }: Measured): string {
  const remarks = notes.map((note) => `- ${note}\n`).join("");
  const results = rows.length === 0 ? "" : `![Chart](performance/${name}.svg)\n`;
  return `## ${title}

${results}${remarks === "" ? "" : `\n${remarks}`}`;
}
