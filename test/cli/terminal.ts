import { spawn, spawnSync } from "node:child_process";
import { needs } from "../needs.ts";
import { cliEnvironment, exitCode, mainPath } from "./run-cli.ts";

const script = spawnSync("script", ["--version"], { encoding: "utf8" });

/** Of tests that use `atTerminal`. */
export const needsTerminal = needs(
  "`script` of util-linux",
  script.error === undefined && script.stdout.includes("util-linux"),
);

/** What to type when the terminal shows this. A function is called before, and may return it. */
export type Answer = readonly [shown: string, typed: string | (() => void | Promise<string>)];

/** Runs flowgate in a pseudo-terminal, and returns all that it has shown. */
export async function atTerminal(
  args: readonly string[],
  answers: readonly Answer[] = [],
  env: Readonly<Record<string, string>> = {},
  redirection = "",
): Promise<{ code: number | null; shown: string }> {
  const words = [process.execPath, mainPath, ...args].map((word) => `'${word}'`);
  // Otherwise, it would have no columns.
  const command = `stty cols 100 rows 40; exec ${words.join(" ")}${redirection}`;
  const terminal = spawn("script", ["--quiet", "--return", "--echo", "never", "--command", command, "/dev/null"], {
    env: { ...cliEnvironment(env), TERM: "xterm-256color", SHELL: "/bin/sh", ...env },
  });
  let shown = "";
  let from = 0;
  const left = [...answers];
  terminal.stdout.on("data", (chunk: Buffer) => {
    shown += chunk.toString();
    const [mark, typed] = left[0] ?? [];
    if (mark !== undefined && shown.includes(mark, from)) {
      from = shown.length;
      left.shift();
      void Promise.resolve(typeof typed === "function" ? typed() : typed).then((text) => {
        // A command to which nothing is typed may have ended.
        if (typeof text === "string") {
          terminal.stdin.write(text);
        }
      });
    }
  });
  const code = await exitCode(terminal);
  return { code, shown };
}
