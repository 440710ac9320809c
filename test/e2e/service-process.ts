import { type ChildProcess, fork, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { mainPath } from "../cli/run-cli.ts";

/** What a host prints after the output of a service, on stdout and stderr. Services escape it. */
export const endMark = "\0";

const hostPath = fileURLToPath(new URL("service-host.ts", import.meta.url));

/** Processes that wait for a service. Those of a worker are shared by its test files. */
const idle: ChildProcess[] = [];

/** More are rarely needed at once, and each takes 100 MB. */
const maxIdle = 3;

/** The process of one service, from its start to its end. */
export class ServiceProcess {
  /** Its exit code, once it has ended. */
  readonly exited: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #waiting = new Set<() => void>();
  #output = "";
  #hasEnded = false;

  constructor(child: ChildProcess) {
    this.#child = child;
    const { promise, resolve } = Promise.withResolvers<number | null>();
    this.exited = promise;
    const streams = [child.stdout, child.stderr].filter((stream) => stream !== null);
    let marks = 0;
    const onData = (chunk: string): void => {
      const isLast = chunk.endsWith(endMark);
      this.#output += isLast ? chunk.slice(0, -endMark.length) : chunk;
      marks += isLast ? 1 : 0;
      this.#look();
      if (marks === streams.length) {
        onEnd(0);
      }
    };
    const onError = (error: Error): void => {
      this.#output += error.message;
      onEnd(null);
    };
    const onEnd = (code: number | null): void => {
      child.off("exit", onEnd).off("error", onError);
      streams.forEach((stream) => stream.off("data", onData));
      this.#hasEnded = true;
      this.#look();
      resolve(code);
    };
    streams.forEach((stream) => stream.setEncoding("utf8").on("data", onData));
    child.once("exit", onEnd).once("error", onError);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** All that it has printed. */
  log(): string {
    return this.#output;
  }

  kill(signal: NodeJS.Signals): void {
    if (!this.#hasEnded) {
      this.#child.kill(signal);
    }
  }

  /** Resolves with the first group of the pattern, or the match, once it has printed that. */
  untilLogged(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const match = pattern.exec(this.#output);
        if (match !== null) {
          resolve(match[1] ?? match[0]);
        } else if (this.#hasEnded) {
          reject(new Error(`the service ended after it printed:\n${this.#output}`));
        } else {
          this.#waiting.add(look);
          return;
        }
        this.#waiting.delete(look);
      };
      look();
    });
  }

  #look(): void {
    this.#waiting.forEach((look) => look());
  }
}

/** Starts a service in a process of its own. */
export function startInNewProcess(
  [program, ...programArgs]: readonly [string, ...string[]],
  args: readonly string[],
  options: { readonly cwd?: string | undefined; readonly env: Readonly<Record<string, string | undefined>> },
): ServiceProcess {
  return new ServiceProcess(
    spawn(program, [...programArgs, ...args], { ...options, stdio: ["ignore", "pipe", "pipe"] }),
  );
}

/**
 * Starts a service in a process that has run other services before, if there is one: it has loaded their modules, which takes most of
 * the time of a start. A service is alone in its process, which is used again only if the service has ended by itself, with exit code 0.
 */
export function startInHost(args: readonly string[]): ServiceProcess {
  const host = idle.pop() ?? startHost();
  setReferenced(host, true);
  const service = new ServiceProcess(host);
  void service.exited.then(() => release(host));
  host.send(args);
  return service;
}

function release(host: ChildProcess): void {
  setReferenced(host, false);
  if (host.exitCode !== null || host.signalCode !== null) {
    return;
  }
  if (idle.length < maxIdle) {
    idle.push(host);
  } else {
    host.disconnect();
  }
}

function startHost(): ChildProcess {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const host = fork(hostPath, [mainPath], {
    env: { PATH, NODE_COMPILE_CACHE },
    // A young generation that does not begin small is collected less often.
    execArgv: ["--min-semi-space-size=16"],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  host.once("exit", () => {
    const index = idle.indexOf(host);
    if (index !== -1) {
      idle.splice(index, 1);
    }
  });
  return host;
}

/** Whether this process waits for the host. An idle one ends with this process. */
function setReferenced(host: ChildProcess, isReferenced: boolean): void {
  const change = isReferenced ? "ref" : "unref";
  for (const handle of [host, host.channel, host.stdout, host.stderr] as readonly (Socket | null | undefined)[]) {
    handle?.[change]();
  }
}
