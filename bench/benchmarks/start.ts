import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { endProcess, openFolder, readUrl } from "../server.ts";
import { builtProgram, sourceProgram, untilReady, writeConfig } from "../service.ts";
import { formatSpread } from "../statistics.ts";

const idleMs = 3_000;

/** As `npm start`, the image and the systemd unit set them. */
const environment = { ...process.env, MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };

type Starts = { readonly seconds: number[]; readonly mebibytes: number[] };

type Contender = {
  readonly name: string;
  readonly entry: URL;
  /** With an empty data directory: without V8's compile cache, and with a new store. */
  readonly first: Starts;
  readonly later: Starts;
};

export const start: Benchmark = {
  name: "start",
  title: "From the start of the process until it is ready and the flow runtime runs; its memory at rest",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const built = contender("built", await builtProgram());
    const source = contender("from source", sourceProgram);
    // Omits the first round, which fills the caches of the file system.
    for (let round = 0; round <= Math.max(starts, rounds); round++) {
      for (const { entry, first, later } of [built, source]) {
        await using dir = await openFolder();
        for (const measured of [first, later]) {
          const { seconds, mebibytes } = await measure(entry, dir.path);
          if (round > 0) {
            measured.seconds.push(seconds);
            measured.mebibytes.push(mebibytes);
          }
        }
      }
    }
    return {
      figures: [
        {
          title: "start to ready with the runtime, built",
          unit: "s",
          values: built.later.seconds,
          goal: { kind: "atMost", value: 0.8 },
        },
        { title: "… from source", unit: "s", values: source.later.seconds, goal: { kind: "atMost", value: 0.8 } },
        {
          title: "API process at rest, built",
          unit: "MiB",
          values: built.later.mebibytes,
          goal: { kind: "atMost", value: 90 },
        },
        { title: "… from source", unit: "MiB", values: source.later.mebibytes, goal: { kind: "atMost", value: 90 } },
      ],
      rows: [built, source].flatMap(({ name, first, later }) =>
        [
          { name: `${name}, first start`, starts: first },
          { name, starts: later },
        ].map(({ name, starts: { seconds, mebibytes } }) => ({
          "": name,
          "start to ready, s": formatSpread(seconds),
          "memory of the API process at rest, MiB": formatSpread(mebibytes),
        })),
      ),
      chart: [
        {
          title: "start to ready, s",
          bars: [built, source].map(({ name, later }) => ({ label: name, values: later.seconds })),
        },
        {
          title: "resident memory at rest, MiB",
          bars: [built, source].map(({ name, later }) => ({ label: name, values: later.mebibytes })),
        },
      ],
    };
  },
};

function contender(name: string, entry: URL): Contender {
  return { name, entry, first: { seconds: [], mebibytes: [] }, later: { seconds: [], mebibytes: [] } };
}

/** Starts the service without the probe, which would take time and memory itself. */
async function measure(entry: URL, folder: string): Promise<{ seconds: number; mebibytes: number }> {
  const config = await writeConfig(folder);
  const started = performance.now();
  const child = spawn(process.execPath, [fileURLToPath(entry), "--config", config], {
    stdio: ["ignore", "pipe", "inherit"],
    env: environment,
  });
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  try {
    await untilReady(await readUrl(child));
    const seconds = (performance.now() - started) / 1000;
    await sleep(idleMs);
    return { seconds, mebibytes: (await residentBytes(child.pid ?? 0)) / 2 ** 20 };
  } finally {
    process.off("exit", end);
    await endProcess(child);
  }
}

/** Returns VmRSS of proc(5); NaN on other platforms than Linux. */
async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}
