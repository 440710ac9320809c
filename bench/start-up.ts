import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { OptionsInput } from "../src/index.ts";
import { endProcess, readUrl } from "./server.ts";
import { untilReady, writeConfig } from "./service.ts";

const idleMs = 3_000;

/** As `serve` prints the URL of Node-RED's listener. */
const nodeRedPattern = /Node-RED's admin API, for its tools: (http:\/\/\S+)\n/;

/** As `npm start`, the image and the systemd unit set them. */
const environment = { ...process.env, MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };

export type StartOptions = {
  readonly options?: OptionsInput;
  /** Called at rest with the URL of Node-RED's listener, after which the memory is read again. */
  readonly use?: ((nodeRedUrl: string) => Promise<void>) | undefined;
};

export type Start = {
  /** Until it is ready. */
  readonly seconds: number;
  /** Of its process at rest. */
  readonly mebibytes: number;
  /** At rest again after `use`. */
  readonly usedMebibytes: number | undefined;
};

/** Starts the service without the probe, which would take time and memory itself. */
export async function measureStart(entry: URL, folder: string, { options, use }: StartOptions = {}): Promise<Start> {
  const config = await writeConfig(folder, options);
  const started = performance.now();
  const child = spawn(process.execPath, [fileURLToPath(entry), "--config", config], {
    stdio: ["ignore", "pipe", "inherit"],
    env: environment,
  });
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  const mebibytes = async (): Promise<number> => {
    await sleep(idleMs);
    return (await residentBytes(child.pid ?? 0)) / 2 ** 20;
  };
  try {
    const nodeRedUrl = use && readUrl(child, nodeRedPattern);
    await untilReady(await readUrl(child));
    const seconds = (performance.now() - started) / 1000;
    const atRest = await mebibytes();
    if (nodeRedUrl === undefined) {
      return { seconds, mebibytes: atRest, usedMebibytes: undefined };
    }
    await use?.(await nodeRedUrl);
    return { seconds, mebibytes: atRest, usedMebibytes: await mebibytes() };
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
