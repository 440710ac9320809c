import { readFile, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import type { Row } from "../../bench/benchmark.ts";
import { formatMarkdownTable } from "../../bench/report/tables.ts";
import manifest from "../../package.json" with { type: "json" };
import type { Size } from "../context.ts";
import type { Drill } from "../drill.ts";
import type { Verdict } from "../run-drill.ts";
import { figureRow, loadRow } from "./rows.ts";

export type RunFacts = {
  readonly size: Size;
  readonly seed: number;
  /** The load average of the machine before the run. */
  readonly loadAverage: string;
};

/** Writes the outcomes of these drills into reliability.md of the folder. Outcomes of other drills are kept. */
export async function writeReport(
  folder: string,
  all: readonly Drill[],
  verdicts: readonly Verdict[],
  run: RunFacts,
): Promise<void> {
  const file = join(folder, "reliability.md");
  const outcomes = readOutcomes(await readFile(file, "utf8"));
  for (const verdict of verdicts) {
    outcomes.set(verdict.drill.name, formatOutcome(verdict, run).trimEnd());
  }
  await writeFile(file, formatReport(all, outcomes));
}

/** The outcomes of drills by their names. */
function readOutcomes(document: string): Map<string, string> {
  const [drills = ""] = document.split("\n## What is not promised\n");
  const [, ...sections] = drills.split(/^(?=### )/m);
  return new Map(
    sections.flatMap((text) => {
      const start = text.indexOf(outcomeMark);
      return start < 0 ? [] : [[text.slice("### ".length, text.indexOf("\n")), text.slice(start).trimEnd()] as const];
    }),
  );
}

const outcomeMark = "\nLast run: ";
const neverRun = "not run yet";

/** The verdict that an outcome states. */
function verdictOf(outcome: string | undefined): string {
  return /^Last run: .* \*\*(?<verdict>\w+)\*\*$/m.exec(outcome ?? "")?.groups?.["verdict"] ?? neverRun;
}

function formatReport(all: readonly Drill[], outcomes: ReadonlyMap<string, string>): string {
  return `# Reliability

Written by \`npm run torture -- --write\` from the drills in [torture/](../torture) and their last runs. A drill tries to break a promise on
real processes of the built service. \`.ci/run\` runs all drills in small sizes (\`--quick\`). \`npm run torture -- --only DRILL --seed SEED\`
repeats the schedule of a run; the timing still depends on the machine.

## What is promised

${formatMarkdownTable(all.map(({ name, promise }) => ({ drill: `[${name}](#${name})`, promise, verdict: verdictOf(outcomes.get(name)) })))}

## How it is tested

- **Controls:** the same check is applied to a planted fault. The drill fails if the check misses it.
- **Minimum load:** a run below it is void.
- **Seed:** it determines corpora, schedules of kills and the order of calls.
- **Isolation:** each drill has its own process group and temporary folders, which are removed afterwards. No request leaves
  loopback ([loopback](#loopback)).
- **Missing system programs:** the drill is skipped; with \`--all\`, as in \`.ci/run\`, it fails.

${all.map((drill) => formatSection(drill, outcomes.get(drill.name))).join("\n")}
## What is not promised

${notPromised.map((text) => `- ${text}\n`).join("")}`;
}

function formatSection({ name, title, method, limits }: Drill, outcome: string | undefined): string {
  return `### ${name}

**${title}.** ${method}
${limits === undefined ? "" : `\nLimits: ${limits}\n`}${outcome === undefined ? `\nIt was ${neverRun}.` : outcome}
`;
}

function formatRun({ size, seed, loadAverage }: RunFacts, { kind, seconds }: Verdict): string {
  const date = new Date().toISOString().slice(0, 10);
  const memory = Math.round(totalmem() / 2 ** 30);
  const processor = `${cpus()[0]?.model.trim() ?? "unknown processor"}, ${availableParallelism()} cores, ${memory} GiB`;
  const versions = `Flowgate ${manifest.version}, Node ${process.version}, ${process.platform}`;
  const machine = `${processor}, load ${loadAverage}`;
  return `Last run: ${date}, ${size} size, ${seconds.toFixed(0)} s, seed ${seed}; ${versions}; ${machine}: **${kind}**`;
}

function formatOutcome(verdict: Verdict, run: RunFacts): string {
  const results = verdict.kind === "skipped" ? `Skipped: ${verdict.reason}.\n` : formatResults(verdict);
  return `\n${formatRun(run, verdict)}\n\n${results}`;
}

function formatResults({ kind, result, reasons }: Exclude<Verdict, { readonly kind: "skipped" }>): string {
  const { loads = [], figures = [], rows: measurements = [], controls = [] } = result ?? {};
  const plantedWhere = (isFound: boolean) =>
    controls.filter(({ found }) => found.length > 0 === isFound).map(({ planted }) => planted);
  const [found, missed] = [plantedWhere(true), plantedWhere(false)];
  const faults = kind === "passed" ? [] : reasons.slice(0, 10);
  return [
    ...[...loads.map(loadRow), ...figures.map(figureRow)].map((row) => `- ${formatRow(row)}\n`),
    ...(found.length === 0 ? [] : [`- Controls found: ${found.join("; ")}\n`]),
    ...(missed.length === 0 ? [] : [`- Controls **missed**: ${missed.join("; ")}\n`]),
    ...faults.map((reason) => `- **Failed**: ${oneLine(reason)}\n`),
    ...(measurements.length === 0 ? [] : [`\n${formatMarkdownTable(measurements)}\n`]),
  ].join("");
}

function formatRow({ figure, value, "void below": minimum }: Row): string {
  return `${figure}: ${value}${minimum === undefined ? "" : ` (minimum ${minimum})`}`;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, 300);
}

/** What users might expect, but no drill tests and no document promises. */
const notPromised: readonly string[] = [
  "**Power failure.** The drills kill processes, not machines. Whether fsync reaches the medium depends on the file system, the hypervisor and the disk.",
  "**A disk that returns wrong data.** SQLite detects only some damage. Keep [backups](operations.md#back-up-and-restore).",
  "**Messages inside flows.** They are lost when the runtime is restarted, killed or replaced, as in Node-RED. Effects of a flow on other systems are not undone.",
  "**A security boundary around flows.** [SECURITY.md](../SECURITY.md#limitations) describes the limits of the isolation.",
  "**Performance under attack.** Latencies under attack are figures, not promises. Floods beyond the capacity of the machine or its network must be handled in front of the service.",
  "**Availability of a single instance.** Calls fail while it restarts. Avoiding that requires several replicas and a load balancer that follows the health checks.",
];
