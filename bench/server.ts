import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hashPassword } from "../src/auth/passwords.ts";
import type { Stalls, ToProbe } from "./probe.ts";

/** A server under test, in a process of its own. Disposing ends it, and removes what it wrote. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  /** The CPU time that the process has used so far; undefined where the system does not tell (it is Linux that does). */
  cpuMs(): Promise<number | undefined>;
  /** Watches the event loop of the process while `work` goes on here. */
  stallsDuring(work: () => Promise<void>): Promise<Stalls>;
}

export type ServerOptions = {
  /** Where the process leaves a CPU profile when it ends. */
  readonly profileDir?: string | undefined;
};

/** The service itself, started by its command, as people run it. */
export type Service = Server & {
  /** What an authenticated request sends. */
  readonly authorization: string;
};

const root = new URL("../", import.meta.url);
const password = "a password for benchmarks";

export async function openService(options: ServerOptions): Promise<Service> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await makeFolder());
  const config = {
    host: "127.0.0.1",
    port: 0,
    dataDir: join(dir.path, "data"),
    runtime: { port: 0 },
    adminAuth: { users: [{ username: "bench", password: await hashPassword(password), permissions: "*" }] },
  };
  // JSON is YAML.
  const file = join(dir.path, "flowgate.yaml");
  await writeFile(file, JSON.stringify(config), { mode: 0o600 });
  const server = stack.use(await openServer(new URL("src/cli/main.ts", root), ["--config", file], options));
  const authorization = await logIn(server.url);
  await untilReady(server.url);
  const opened = stack.move();
  return { ...server, authorization, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** A bare Fastify route that answers these bytes, whatever the path. */
export async function openBare(bytes: Uint8Array, contentType: string, options: ServerOptions): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await makeFolder());
  const file = join(dir.path, "body");
  await writeFile(file, bytes);
  const server = stack.use(await openServer(new URL("bench/bare.ts", root), [file, contentType], options));
  const opened = stack.move();
  return { ...server, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

/** Any entry that prints where it listens, as the service does. */
export async function openServer(entry: URL, args: readonly string[], { profileDir }: ServerOptions): Promise<Server> {
  const child = spawn(
    process.execPath,
    [
      ...(profileDir === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileDir}`]),
      `--import=${new URL("bench/probe.ts", root).href}`,
      entry.pathname,
      ...args,
    ],
    { stdio: ["ignore", "pipe", "inherit", "ipc"] },
  );
  const close = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
  };
  try {
    return {
      url: await readUrl(child),
      cpuMs: () => readCpuMs(child.pid),
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

/** As each server prints it; whatever else it prints is dropped. */
async function readUrl({ stdout }: ChildProcess): Promise<string> {
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
  const answer = once(child, "message", { signal: AbortSignal.timeout(10_000) });
  child.send(message);
  const [value] = (await answer) as unknown[];
  return value;
}

/** utime and stime of proc(5): their unit is 10 ms wherever Linux runs. */
async function readCpuMs(pid: number | undefined): Promise<number | undefined> {
  if (process.platform !== "linux") {
    return undefined;
  }
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

async function logIn(url: string): Promise<string> {
  const response = await fetch(`${url}/auth/token`, {
    method: "POST",
    body: new URLSearchParams({
      client_id: "service-admin",
      grant_type: "password",
      scope: "*",
      username: "bench",
      password,
    }),
  });
  const { access_token: token } = (await response.json()) as { access_token: string };
  return `Bearer ${token}`;
}

async function untilReady(url: string): Promise<void> {
  const deadline = AbortSignal.timeout(30_000);
  while (!(await fetch(`${url}/readyz`, { signal: deadline })).ok) {
    await sleep(50);
  }
}

async function makeFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-bench-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
