import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Stalls, ToProbe, Usage } from "./probe.ts";

/** A server under test, in a process of its own. Disposing ends it. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** CPU time since the process started, of all its threads, and the memory that it holds. */
  usage(): Promise<Usage>;
  /** The same after a full garbage collection. */
  usageAfterCollection(): Promise<Usage>;
  /** Watches the event loop of the process while `work` goes on here. Of servers on Node. */
  stallsDuring(work: () => Promise<void>): Promise<Stalls>;
}

export type ServerOptions = {
  /** Where the process leaves a CPU profile when it ends. */
  readonly profileDir?: string | undefined;
};

const probe = new URL("probe.ts", import.meta.url);
const endTimeoutMs = 15_000;

/** Any entry on Node that prints where it listens, as the service does. */
export function openServer(
  entry: URL,
  args: readonly string[] = [],
  { profileDir }: ServerOptions = {},
): Promise<Server> {
  const profile = profileDir === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileDir}`];
  return openProcess(process.execPath, [...profile, `--import=${probe.href}`, entry.pathname, ...args]);
}

/** Any program that prints where it listens, and answers what `probe.ts` does over Node's IPC channel. */
export async function openProcess(command: string, args: readonly string[]): Promise<Server> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const close = () => endProcess(child);
  try {
    return {
      url: await readUrl(child),
      pid: child.pid ?? 0,
      usage: async () => (await ask(child, "usage")) as Usage,
      usageAfterCollection: async () => (await ask(child, "collect")) as Usage,
      async stallsDuring(work) {
        await ask(child, "start");
        await work();
        return (await ask(child, "stop")) as Stalls;
      },
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const timer = setTimeout(() => child.kill("SIGKILL"), endTimeoutMs);
    child.kill("SIGTERM");
    await once(child, "exit");
    clearTimeout(timer);
  }
}

/** The URL in `listens on URL`; whatever else the process prints is dropped. */
export async function readUrl({ stdout }: ChildProcess): Promise<string> {
  let text = "";
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    text = text.length < 65_536 ? text + chunk : text;
    const url = /listens on (http:\/\/\S+)\n/i.exec(text)?.[1];
    if (url !== undefined) {
      resolve(url);
    }
  });
  stdout?.on("end", () => reject(new Error(`the server did not listen: ${text}`)));
  return promise;
}

async function ask(child: ChildProcess, message: ToProbe): Promise<unknown> {
  const answer = once(child, "message", { signal: AbortSignal.timeout(30_000) });
  child.send(message);
  const [value] = (await answer) as unknown[];
  return value;
}

/** A folder for what a server writes. Disposing removes it. */
export async function openFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-bench-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
