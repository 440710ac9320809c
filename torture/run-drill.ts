import { type ChildProcess, fork, spawnSync } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdtemp, readdir, readlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunOptions, Size } from "./context.ts";
import { type Drill, reasonsOfFailure, type Result } from "./drill.ts";
import type { Message } from "./drill-process.ts";
import { reasonAgainst } from "./programs.ts";

export type Verdict = { readonly drill: Drill; readonly seconds: number } & (
  | { readonly kind: "skipped"; readonly reason: string }
  /** `result` is undefined if the drill did not end properly. */
  | { readonly kind: "passed" | "failed"; readonly reasons: readonly string[]; readonly result: Result | undefined }
);

/** How long a drill may take, in addition to `--minutes`. Small sizes share the machine with other drills and tests. */
const limitsMs: Readonly<Record<Size, number>> = { quick: 360_000, full: 2_400_000 };

/** Starts Node in a network namespace that has only loopback. */
const inPrivateNetwork = ["--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", process.execPath];

/** Whether drills can't reach any other machine. Needs root, and the Debian package iproute2. */
export const isNetworkPrivate: boolean =
  process.getuid?.() === 0 && spawnSync("unshare", ["--net", "--", "ip", "link", "set", "lo", "up"]).status === 0;

const compileCache = fileURLToPath(new URL("../node_modules/.cache/node", import.meta.url));

/** Runs a drill of the program in a process group and a temporary folder of its own. Neither exists when it resolves. */
export async function runDrill(drill: Drill, options: RunOptions, program: string): Promise<Verdict> {
  const began = performance.now();
  const secondsSince = () => (performance.now() - began) / 1000;
  const missing = drill.programs?.map(reasonAgainst).find((reason) => reason !== undefined);
  if (missing !== undefined) {
    return { drill, kind: "skipped", reason: missing, seconds: 0 };
  }
  const folder = await mkdtemp(join(tmpdir(), `flowgate-torture-${drill.name}-`));
  // Processes that were killed just now may still write.
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  process.once("exit", remove);
  try {
    const result = await runProcess(drill.name, folder, options, program);
    const reasons = reasonsOfFailure(result);
    return { drill, kind: reasons.length === 0 ? "passed" : "failed", reasons, result, seconds: secondsSince() };
  } catch (error) {
    const reasons = [error instanceof Error ? error.message : String(error)];
    return { drill, kind: "failed", reasons, result: undefined, seconds: secondsSince() };
  } finally {
    await endProcessesIn(folder);
    process.off("exit", remove);
    remove();
  }
}

async function runProcess(
  name: string,
  folder: string,
  { progress, ...options }: RunOptions,
  program: string,
): Promise<Result> {
  const child = fork(new URL("drill-process.ts", import.meta.url), [name, JSON.stringify(options)], {
    ...(isNetworkPrivate && { execPath: "unshare", execArgv: inPrivateNetwork }),
    detached: true,
    env: { PATH: process.env["PATH"], TMPDIR: folder, NODE_COMPILE_CACHE: compileCache, TESTED_PROGRAM: program },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const limitMs = limitsMs[options.size] + (options.minutes ?? 0) * 60_000;
  const end = () => endGroup(child);
  process.once("exit", end);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    end();
  }, limitMs);
  let result: Result | undefined;
  let errors = "";
  child.on("message", (message: Message) => {
    if ("progress" in message) {
      progress(message.progress);
    } else {
      result = message.result;
      // Node sometimes waits indefinitely for a closed handle while it exits.
      end();
    }
  });
  child.stderr?.on("data", (chunk: Buffer) => (errors = `${errors}${chunk.toString()}`.slice(-4_000)));
  try {
    await once(child, "exit");
  } finally {
    clearTimeout(timer);
    end();
    process.off("exit", end);
  }
  if (timedOut) {
    throw new Error(`it took longer than ${limitMs / 1000} s`);
  }
  if (result === undefined) {
    throw new Error(`it ended without a result: ${errors.trim()}`);
  }
  return result;
}

/** Kills what is left of the process group of a drill. */
function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) {
      process.kill(-pid, "SIGKILL");
    }
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) {
      throw error;
    }
  }
}

/** Kills flow runtimes that a drill has left, which have their own process group and work in its folder. */
async function endProcessesIn(folder: string): Promise<void> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  for (const pid of pids) {
    const directory = await readlink(`/proc/${pid}/cwd`).catch(() => "");
    if (directory.startsWith(`${folder}/`)) {
      process.kill(Number(pid), "SIGKILL");
    }
  }
}
