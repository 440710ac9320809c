import { writeFile } from "node:fs/promises";
import { availableParallelism, cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { formatMarkdownTable } from "../../bench/report/markdown-table.ts";
import manifest from "../../package.json" with { type: "json" };
import type { Size } from "../context.ts";
import type { Verdict } from "../run-drill.ts";
import { notPromised } from "./not-promised.ts";
import { figureRow, loadRow } from "./rows.ts";

export type RunFacts = {
  readonly size: Size;
  readonly seed: number;
  /** The load average of the machine before the run. */
  readonly loadAverage: string;
  readonly seconds: number;
};

/** Writes reliability.md to the folder. */
export async function writeReport(folder: string, verdicts: readonly Verdict[], run: RunFacts): Promise<void> {
  await writeFile(join(folder, "reliability.md"), formatReport(verdicts, run));
}

function formatReport(verdicts: readonly Verdict[], run: RunFacts): string {
  const flags = [...(run.size === "quick" ? ["--quick"] : []), `--seed ${run.seed}`].join(" ");
  return `# Reliability

Written by \`npm run torture -- --write\` from the texts of the drills in [torture/](../torture) and the figures of one run. A drill
tries to break a promise of the service, on real processes of the built service. A run in small sizes (\`--quick\`) is part of
\`.ci/run\`.

## The run

${formatMarkdownTable([
  { fact: "date", value: new Date().toISOString().slice(0, 10) },
  { fact: "size", value: `${run.size} (${run.seconds.toFixed(0)} s)` },
  { fact: "seed", value: String(run.seed) },
  { fact: "versions", value: `Flowgate ${manifest.version}, Node ${process.version}` },
  { fact: "system", value: `${process.platform} ${release()}, ${process.arch}` },
  { fact: "machine", value: formatMachine(run.loadAverage) },
])}

To repeat its schedule: \`npm run torture -- ${flags}\`. The kernel and the other work of the machine still change the timing.

## What is promised

${formatMarkdownTable(verdicts.map(({ drill: { name, promise }, kind }) => ({ drill: `[${name}](#${name})`, promise, verdict: kind })))}

## How it is tested

- Each drill has **controls**: the same check is applied to a planted fault, and the drill fails if the check does not find it.
- Each drill has a **minimum load**. Below it the run is void, since too little was tried to show anything.
- Everything that a seed can determine is determined by it: corpora, schedules of kills, order of calls.
- Each drill runs in a process group and in temporary folders of its own, which do not exist afterwards. No request goes to an address
  outside of loopback; a [drill](#loopback) of its own checks this.
- A drill that needs a program of the system which is not installed is skipped; with \`--all\`, as in \`.ci/run\`, it fails.

${verdicts.map(formatSection).join("\n")}
## What is not promised

${notPromised.map((text) => `- ${text}\n`).join("")}`;
}

function formatMachine(loadAverage: string): string {
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus()[0]?.model.trim() ?? "unknown"}, ${availableParallelism()} cores, ${memory} GiB, load average ${loadAverage} before the run`;
}

function formatSection(verdict: Verdict): string {
  const { drill, kind } = verdict;
  const { name, title, promise, method, limits } = drill;
  return `### ${name}

**${title}.** ${promise}

${method}
${limits === undefined ? "" : `\nLimits: ${limits}\n`}
${kind === "skipped" ? `Skipped: ${verdict.reason}.\n` : formatOutcome(verdict)}`;
}

function formatOutcome({ kind, result, reasons }: Exclude<Verdict, { readonly kind: "skipped" }>): string {
  const { loads = [], figures = [], rows: measurements = [], controls = [] } = result ?? {};
  const rows = [...loads.map(loadRow), ...figures.map(figureRow)];
  const ofControls = controls.map(
    ({ planted, found }) => `- Control: ${planted}: ${found.length === 0 ? "**missed**" : "found"}.\n`,
  );
  const faults = kind === "passed" ? [] : reasons.slice(0, 10).map((reason) => `- **Failed**: ${oneLine(reason)}\n`);
  const tables = [rows, measurements]
    .filter((table) => table.length > 0)
    .map((table) => `${formatMarkdownTable(table)}\n\n`);
  return [...tables, ...ofControls, ...faults].join("");
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, 300);
}
