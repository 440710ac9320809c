import { mkdtemp, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { SecureContextOptions } from "node:tls";
import { mainPath } from "../cli/run-cli.ts";
import { type Reply, type Sending, send } from "./rest.ts";
import { startInHost, startInNewProcess } from "./service-process.ts";

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
  /**
   * Whether its process is new, and ends with it, as always with a command, a working directory or variables of its own: for tests of what
   * belongs to a process, such as its memory, limits and exit. By default, it may have run services of other tests before.
   */
  readonly ownProcess?: boolean;
  /** How `send` connects if the configuration has `tls`. */
  readonly tls?: SecureContextOptions;
  /** Called before it starts, with the data directory. */
  readonly prepare?: (dataDir: string) => Promise<void>;
};

/** Configuration for tests that need no flow runtime, whose start takes as much CPU as that of the service. */
export const withoutRuntime = { runtime: { mode: "none" } } as const;

/** A running service, with the command line of a user. */
export type Service = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly dataDir: string;
  /** Its complete output. */
  log(): string;
  /** Resolves once it has printed this. */
  untilLogged(pattern: RegExp): Promise<void>;
  /** Replaces its configuration file, as editors do. */
  replaceConfig(config: object | string): Promise<void>;
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

/** A service may get little of a busy machine's CPU: that is no overload, for which calls would be rejected. */
function onBusyMachine(config: { readonly limits?: unknown }): object {
  const { limits = {} } = config;
  return typeof limits === "object" ? { ...config, limits: { eventLoopDelayMs: 0, ...limits } } : config;
}

export async function startService({
  command,
  cwd,
  config = {},
  port = 0,
  dataDir,
  env,
  ownProcess = false,
  tls,
  prepare,
}: ServiceOptions = {}): Promise<Service> {
  const directory = await mkdtemp(join(tmpdir(), "flowgate-e2e-"));
  const configPath = join(directory, "flowgate.yaml");
  const writeConfig = (path: string, content: object | string): Promise<void> =>
    writeFile(path, typeof content === "string" ? content : JSON.stringify(onBusyMachine(content)));
  await writeConfig(configPath, config);
  const data = dataDir ?? join(directory, "data");
  await prepare?.(data);

  const args = ["--config", configPath, "--port", String(port), "--runtime-port", "0", "--data-dir", data];
  const child =
    command === undefined && cwd === undefined && env === undefined && !ownProcess
      ? startInHost(args)
      : startInNewProcess(command ?? [process.execPath, mainPath], args, {
          cwd,
          env: { ...inherited(command), ...env },
        });
  const { pid } = child;
  try {
    const url = await child.untilLogged(/^Flowgate listens on (https?:\/\/\S+)\n/m);
    if (pid === undefined) {
      throw new Error("the service has no process id");
    }
    return await untilReady({
      url,
      port: Number(new URL(url).port),
      pid,
      dataDir: data,
      log: () => child.log(),
      untilLogged: async (pattern) => void (await child.untilLogged(pattern)),
      async replaceConfig(next) {
        await writeConfig(`${configPath}~`, next);
        await rename(`${configPath}~`, configPath);
      },
      send: (method, path, sending) => send(url, method, path, { ...(tls && { tls }), ...sending }),
      async get(path, headers = {}) {
        const settings = (await send(url, "GET", "/settings", { headers })).json() as { runtime: { httpPort: number } };
        return (await send(`http://127.0.0.1:${settings.runtime.httpPort}`, "GET", path)).body;
      },
      childPids: () => childrenOf(pid),
      stop(signal = "SIGTERM") {
        child.kill(signal);
        return child.exited;
      },
      async kill9() {
        child.kill("SIGKILL");
        await child.exited;
      },
      exited: child.exited,
      async [Symbol.asyncDispose]() {
        child.kill("SIGTERM");
        await child.exited;
        await rm(directory, { recursive: true });
      },
    });
  } catch (error) {
    child.kill("SIGKILL");
    await rm(directory, { recursive: true });
    throw error;
  }
}

/** The compile cache is for the tested program only: it would grow with each other path. */
function inherited(command: ServiceOptions["command"]): Readonly<Record<string, string | undefined>> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return command === undefined ? { PATH, NODE_COMPILE_CACHE } : { PATH };
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
