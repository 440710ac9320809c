import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Stalls, ToProbe, Usage } from "./probe.ts";

/** A server under test in a separate process. Disposing stops it. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** CPU time of all threads since the start of the process, and resident memory. */
  usage(): Promise<Usage>;
  /** As `usage`, after a full garbage collection. */
  usageAfterCollection(): Promise<Usage>;
  /** Measures the event loop of the process during `work`. For servers on Node only. */
  stallsDuring(work: () => Promise<void>): Promise<Stalls>;
}

export type ServerOptions = {
  /** Directory for a CPU profile, which the process writes when it exits. */
  readonly profileDir?: string | undefined;
};

const probe = new URL("probe.ts", import.meta.url);
const endTimeoutMs = 15_000;

/** Starts a program on Node, which must print its URL as the service does. */
export function openServer(
  entry: URL,
  args: readonly string[] = [],
  { profileDir }: ServerOptions = {},
): Promise<Server> {
  const profile = profileDir === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileDir}`];
  return openProcess(process.execPath, [...profile, `--import=${probe.href}`, entry.pathname, ...args]);
}

/** Starts a program, which must print its URL and implement the protocol of `probe.ts` over Node's IPC channel. */
export async function openProcess(command: string, args: readonly string[]): Promise<Server> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const close = () => endProcess(child);
  try {
    return {
      url: await readUrl(child),
      pid: child.pid ?? 0,
      usage: async () => (await request(child, "usage")) as Usage,
      usageAfterCollection: async () => (await request(child, "collect")) as Usage,
      async stallsDuring(work) {
        await request(child, "start");
        await work();
        return (await request(child, "stop")) as Stalls;
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

/** Resolves with the URL that the process prints as `listens on <URL>`, or by another pattern. */
export async function readUrl({ stdout }: ChildProcess, pattern = /listens on (http:\/\/\S+)\n/i): Promise<string> {
  let text = "";
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    text = text.length < 65_536 ? text + chunk : text;
    const url = pattern.exec(text)?.[1];
    if (url !== undefined) {
      resolve(url);
    }
  });
  stdout?.on("end", () => reject(new Error(`the server did not listen: ${text}`)));
  return promise;
}

async function request(child: ChildProcess, message: ToProbe): Promise<unknown> {
  const reply = once(child, "message", { signal: AbortSignal.timeout(30_000) });
  child.send(message);
  const [value] = (await reply) as unknown[];
  return value;
}

/** Creates a temporary directory. Disposing removes it. */
export async function openFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-bench-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
