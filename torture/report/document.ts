import { readFile, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
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

/** Writes what these drills have shown into reliability.md of the folder. It keeps the sections of others. */
export async function writeReport(
  folder: string,
  all: readonly Drill[],
  verdicts: readonly Verdict[],
  run: RunFacts,
): Promise<void> {
  const file = join(folder, "reliability.md");
  const sections = readSections(await readFile(file, "utf8"));
  for (const verdict of verdicts) {
    sections.set(verdict.drill.name, `${formatSection(verdict, run).trimEnd()}\n`);
  }
  await writeFile(file, formatReport(all, sections));
}

/** The sections of drills by their names. */
function readSections(document: string): Map<string, string> {
  const [drills = ""] = document.split("\n## What is not promised\n");
  const [, ...sections] = drills.split(/^(?=### )/m);
  return new Map(sections.map((text) => [text.slice("### ".length, text.indexOf("\n")), `${text.trimEnd()}\n`]));
}

const neverRun = "not run yet";

/** The verdict that a section states. */
function verdictOf(section: string | undefined): string {
  return /^Last run: .* \*\*(?<verdict>\w+)\*\*$/m.exec(section ?? "")?.groups?.["verdict"] ?? neverRun;
}

function formatReport(all: readonly Drill[], sections: ReadonlyMap<string, string>): string {
  return `# Reliability

Written by \`npm run torture -- --write\` from the texts of the drills in [torture/](../torture) and the figures of their last runs; with
\`--only\`, the others keep theirs. A drill tries to break a promise of the service, on real processes of the built service. A run in small
sizes (\`--quick\`) is part of \`.ci/run\`.

\`npm run torture -- --only DRILL --seed SEED\` repeats the schedule of a run. The kernel and the other work of the machine still change the
timing.

## What is promised

${formatMarkdownTable(all.map(({ name, promise }) => ({ drill: `[${name}](#${name})`, promise, verdict: verdictOf(sections.get(name)) })))}

## How it is tested

- Each drill has **controls**: the same check is applied to a planted fault, and the drill fails if the check does not find it.
- Each drill has a **minimum load**. Below it the run is void, since too little was tried to show anything.
- Everything that a seed can determine is determined by it: corpora, schedules of kills, order of calls.
- Each drill runs in a process group and in temporary folders of its own, which do not exist afterwards. No request goes to an address
  outside of loopback; a [drill](#loopback) of its own checks this.
- A drill that needs a program of the system which is not installed is skipped; with \`--all\`, as in \`.ci/run\`, it fails.

${all.map(({ name }) => sections.get(name) ?? `### ${name}\n\nIt was ${neverRun}.\n`).join("\n")}
## What is not promised

${notPromised.map((text) => `- ${text}\n`).join("")}`;
}

function formatRun({ size, seed, loadAverage }: RunFacts, { kind, seconds }: Verdict): string {
  const date = new Date().toISOString().slice(0, 10);
  const memory = Math.round(totalmem() / 2 ** 30);
  const processor = `${cpus()[0]?.model.trim() ?? "unknown processor"}, ${availableParallelism()} cores, ${memory} GiB`;
  const versions = `Flowgate ${manifest.version}, Node ${process.version}, ${process.platform}`;
  const machine = `${processor}, load average ${loadAverage} before the run`;
  return `Last run: ${date}, ${size} size, ${seconds.toFixed(0)} s, seed ${seed}; ${versions}; ${machine}: **${kind}**`;
}

function formatSection(verdict: Verdict, run: RunFacts): string {
  const { drill, kind } = verdict;
  const { name, title, promise, method, limits } = drill;
  return `### ${name}

**${title}.** ${promise}

${method}
${limits === undefined ? "" : `\nLimits: ${limits}\n`}
${formatRun(run, verdict)}

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

/** What users might expect, but no drill tests and no document promises. */
const notPromised: readonly string[] = [
  "**Power failure.** The drills kill processes, not machines. They show that data is flushed with fsync before a deployment is " +
    "acknowledged; that fsync reaches the medium is up to the file system, the hypervisor and the disk.",
  "**A disk that returns wrong data.** SQLite detects a damaged database only in part. Keep [backups](operations.md#back-up-and-restore).",
  "**Messages inside of flows.** They are lost when the runtime is restarted, killed or replaced, as in Node-RED. What a flow has done " +
    "to other systems is not undone.",
  "**A security boundary around flows.** Hostile flows are isolated as far as [SECURITY.md](../SECURITY.md#limitations) says: they can " +
    "use the CPU, the network and the disk quota of the service's user.",
  "**Performance under attack.** The API stays available to operators. Its latencies under attack are figures, not promises, and " +
    "floods beyond the capacity of the machine or its network must be handled in front of the service.",
  "**Availability of a single instance.** While one instance restarts, calls fail. Without failed calls, restarts need several replicas " +
    "or instances, and a load balancer that follows the health checks.",
];
