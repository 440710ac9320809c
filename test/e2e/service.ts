import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { SecureContextOptions } from "node:tls";
import { mainPath } from "../cli/run-cli.ts";
import { type Reply, type Sending, send } from "./rest.ts";

export type ServiceOptions = {
  /** The command to start it. Defaults to the tested program. */
  readonly command?: readonly [program: string, ...args: string[]];
  /** Its working directory. Defaults to that of the tests. */
  readonly cwd?: string;
  /** Its configuration: an object, or YAML. */
  readonly config?: object | string;
  /** Its port. Defaults to a free one. */
  readonly port?: number;
  /** Kept when the service is disposed. Defaults to a temporary one, which is removed. */
  readonly dataDir?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** How `send` connects if the configuration has `tls`. */
  readonly tls?: SecureContextOptions;
  /** Called before it starts, with the data directory. */
  readonly prepare?: (dataDir: string) => Promise<void>;
};

/** Configuration for tests that need no flow runtime, whose start takes as much CPU as that of the service. */
export const withoutRuntime = { runtime: { mode: "none" } } as const;

/** A `flowgate` process, started like by a user. */
export type Service = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly dataDir: string;
  /** Its complete output. */
  log(): string;
  /** Resolves once it has printed this. */
  untilLogged(pattern: RegExp): Promise<void>;
  send(method: string, path: string, sending?: Sending): Promise<Reply>;
  /** Requests an HTTP-in node of its flows; `headers` are for the request of its port. */
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<string>;
  /** Its running child processes. */
  childPids(): Promise<number[]>;
  /** Stops it with a signal (SIGTERM by default), and returns its exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  kill9(): Promise<void>;
  /** Its exit code, once it has exited. */
  readonly exited: Promise<number | null>;
};

export async function startService({
  command,
  cwd,
  config = {},
  port = 0,
  dataDir,
  env = {},
  tls,
  prepare,
}: ServiceOptions = {}): Promise<Service> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-e2e-"));
  const configPath = join(directory, "flowgate.yaml");
  await writeFile(configPath, typeof config === "string" ? config : JSON.stringify(config));
  const data = dataDir ?? join(directory, "data");
  await prepare?.(data);

  const [file, ...args] = command ?? [process.execPath, mainPath];
  // The cache is for this program only: it would grow with each other path.
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const inherited = command === undefined ? { PATH, NODE_COMPILE_CACHE } : { PATH };
  const child = spawn(
    file,
    [...args, "--config", configPath, "--port", String(port), "--runtime-port", "0", "--data-dir", data],
    { cwd, env: { ...inherited, ...env }, stdio: ["ignore", "pipe", "pipe"] },
  );
  const exited = once(child, "exit") as Promise<[number | null]>;
  const output = collect(child);
  const { pid } = child;
  try {
    const url = await output.until(/^Flowgate listens on (https?:\/\/\S+)\n/m);
    if (pid === undefined) {
      throw new Error("the service has no process id");
    }
    return await untilReady({
      url,
      port: Number(new URL(url).port),
      pid,
      dataDir: data,
      log: () => output.text(),
      untilLogged: async (pattern) => void (await output.until(pattern)),
      send: (method, path, sending) => send(url, method, path, { ...(tls && { tls }), ...sending }),
      async get(path, headers = {}) {
        const settings = (await send(url, "GET", "/settings", { headers })).json() as { runtime: { httpPort: number } };
        return (await send(`http://127.0.0.1:${settings.runtime.httpPort}`, "GET", path)).body;
      },
      childPids: () => childrenOf(pid),
      async stop(signal = "SIGTERM") {
        child.kill(signal);
        return (await exited)[0];
      },
      async kill9() {
        child.kill("SIGKILL");
        await exited;
      },
      exited: exited.then(([code]) => code),
      async [Symbol.asyncDispose]() {
        child.kill("SIGTERM");
        await exited;
        await rm(directory, { recursive: true });
      },
    });
  } catch (error) {
    child.kill("SIGKILL");
    await rm(directory, { recursive: true });
    throw error;
  }
}

function collect(child: ChildProcess): { text(): string; until(pattern: RegExp): Promise<string> } {
  let output = "";
  const waiting = new Set<() => void>();
  const grown = (chunk?: Buffer) => {
    output += chunk?.toString() ?? "";
    for (const look of waiting) {
      look();
    }
  };
  child.stdout?.on("data", grown);
  child.stderr?.on("data", grown);
  child.on("exit", () => grown());
  return {
    text: () => output,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = pattern.exec(output);
          if (match !== null) {
            resolve(match[1] ?? match[0]);
          } else if (child.exitCode !== null || child.signalCode !== null) {
            reject(new Error(`the service ended after it printed:\n${output}`));
          } else {
            waiting.add(look);
            return;
          }
          waiting.delete(look);
        };
        look();
      }),
  };
}

async function untilReady(service: Service): Promise<Service> {
  await eventually(async () => {
    const { status, body } = await service.send("GET", "/readyz");
    if (status !== 200) {
      throw new Error(`not ready: ${body}\n${service.log()}`);
    }
  });
  return service;
}

/** Retries until it no longer throws, for state that can only be polled. Gives up after `withinMs`. */
export async function eventually<T>(look: () => Promise<T>, withinMs = 120_000): Promise<T> {
  const untilMs = performance.now() + withinMs;
  // Hundreds of starts are awaited with this, so that looking takes a part of the time of all tests.
  for (let pauseMs = 10; ; pauseMs = Math.min(1.5 * pauseMs, 80)) {
    try {
      return await look();
    } catch (error) {
      if (performance.now() > untilMs) {
        throw error;
      }
      await delay(pauseMs);
    }
  }
}

/** Whether a process exists and is not a zombie. */
async function readStat(pid: number): Promise<{ name: string; parent: number } | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const [, name = "", state, parent] = /\((.*)\) (\S) (\d+)/s.exec(stat) ?? [];
  return state === undefined || state === "Z" ? undefined : { name, parent: Number(parent) };
}

export async function isRunning(pid: number): Promise<boolean> {
  return (await readStat(pid)) !== undefined;
}

/** The child processes; those in namespaces instead of bubblewrap, which has started them. */
async function childrenOf(parent: number): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const stats = await Promise.all(pids.map(async (pid) => ({ pid, stat: await readStat(pid) })));
  const within = (pid: number): number[] =>
    stats
      .filter(({ stat }) => stat?.parent === pid)
      .flatMap((child) => (child.stat?.name === "bwrap" ? within(child.pid) : [child.pid]));
  return within(parent);
}
