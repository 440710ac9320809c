import { spawn } from "node:child_process";
import { cliEnvironment, exitCode, mainPath, type Outcome } from "./run-cli.ts";

/** A command that runs until it is ended. */
export type RunningCli = AsyncDisposable & {
  /** Resolves once stdout matches, with stdout so far. Rejects if the command ends before. */
  until(pattern: RegExp, stream?: "stdout" | "stderr"): Promise<string>;
  /** Sends a signal, and waits for the end. */
  end(signal: NodeJS.Signals): Promise<Outcome>;
  readonly ended: Promise<Outcome>;
};

/** Starts flowgate without stdin, with a program such as strace if `launcher` names one. */
export function startCli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  launcher: readonly string[] = [],
): RunningCli {
  const [program = "", ...all] = [...launcher, process.execPath, mainPath, ...args];
  const child = spawn(program, all, { env: cliEnvironment(env), stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  const waiting = new Set<() => void>();
  const notify = (): void => waiting.forEach((look) => look());
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      output[name] += chunk;
      notify();
    });
  }
  let hasEnded = false;
  const ended = exitCode(child).then((code) => {
    hasEnded = true;
    notify();
    return { code, ...output };
  });
  return {
    until: (pattern, stream = "stdout") =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (pattern.test(output[stream])) {
            waiting.delete(look);
            resolve(output[stream]);
          } else if (hasEnded) {
            reject(new Error(`the command has ended after ${JSON.stringify(output)}`));
          }
        };
        waiting.add(look);
        look();
      }),
    end(signal) {
      child.kill(signal);
      return ended;
    },
    ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
