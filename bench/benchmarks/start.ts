import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { endProcess, openFolder, readUrl } from "../server.ts";
import { builtProgram, sourceProgram, untilReady, writeConfig } from "../service.ts";
import { formatSpread } from "../statistics.ts";

const idleMs = 3_000;

type Started = {
  readonly name: string;
  readonly entry: URL;
  readonly seconds: number[];
  readonly mebibytes: number[];
};

export const start: Benchmark = {
  name: "start",
  title: "From the start of the process until it is ready and the flow runtime runs; its memory at rest",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const built: Started = { name: "built", entry: await builtProgram(), seconds: [], mebibytes: [] };
    const source: Started = {
      name: "from source",
      entry: sourceProgram,
      seconds: [],
      mebibytes: [],
    };
    // Omits the first start, which fills caches.
    for (let round = 0; round <= Math.max(starts, rounds); round++) {
      for (const contender of [built, source]) {
        await measure(contender, round > 0);
      }
    }
    return {
      figures: [
        {
          title: "start to ready with the runtime, built",
          unit: "s",
          values: built.seconds,
          goal: { kind: "atMost", value: 0.8 },
        },
        { title: "… from source", unit: "s", values: source.seconds, goal: { kind: "atMost", value: 0.8 } },
        {
          title: "API process at rest, built",
          unit: "MiB",
          values: built.mebibytes,
          goal: { kind: "atMost", value: 90 },
        },
        { title: "… from source", unit: "MiB", values: source.mebibytes, goal: { kind: "atMost", value: 90 } },
      ],
      rows: [built, source].map(({ name, seconds, mebibytes }) => ({
        "": name,
        "start to ready, s": formatSpread(seconds),
        "memory of the API process at rest, MiB": formatSpread(mebibytes),
      })),
      chart: [
        {
          title: "start to ready, s",
          bars: [built, source].map(({ name, seconds }) => ({ label: name, values: seconds })),
        },
        {
          title: "resident memory at rest, MiB",
          bars: [built, source].map(({ name, mebibytes }) => ({ label: name, values: mebibytes })),
        },
      ],
    };
  },
};

/** Starts the service without the probe, which would take time and memory itself. */
async function measure({ entry, seconds, mebibytes }: Started, counts: boolean): Promise<void> {
  await using dir = await openFolder();
  const config = await writeConfig(dir.path);
  const started = performance.now();
  const child = spawn(process.execPath, [fileURLToPath(entry), "--config", config], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  try {
    await untilReady(await readUrl(child));
    const readyMs = performance.now() - started;
    if (counts) {
      seconds.push(readyMs / 1000);
      await sleep(idleMs);
      mebibytes.push((await residentBytes(child.pid ?? 0)) / 2 ** 20);
    }
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
