import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { endProcess, readUrl } from "./server.ts";
import { untilReady, writeConfig } from "./service.ts";

const idleMs = 3_000;

/** As `npm start`, the image and the systemd unit set them. */
const environment = { ...process.env, MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };

/** Starts the service without the probe, which would take time and memory itself. */
export async function measureStart(entry: URL, folder: string): Promise<{ seconds: number; mebibytes: number }> {
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
