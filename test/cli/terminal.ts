import { spawn, spawnSync } from "node:child_process";
import { exitCode, mainPath } from "./run-cli.ts";

const script = spawnSync("script", ["--version"], { encoding: "utf8" });

/** Whether this machine has what `atTerminal` needs: `script` of util-linux. */
export const hasTerminal = script.error === undefined && script.stdout.includes("util-linux");
if (!hasTerminal) {
  process.stderr.write("skipped: commands at a terminal need `script` of util-linux, which is not here\n");
}

/** What is typed when a prompt appears. */
export type Answer = readonly [prompt: string, typed: string | (() => Promise<string>)];

/** Runs flowgate in a pseudo-terminal with colours. Returns all that the terminal gets. */
export async function atTerminal(
  args: readonly string[],
  answers: readonly Answer[] = [],
  { env = {}, cwd }: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): Promise<{ readonly code: number | null; readonly shown: string }> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const words = [process.execPath, mainPath, ...args].map((word) => `'${word}'`);
  const command = `stty cols 100 rows 40; exec ${words.join(" ")}`;
  const terminal = spawn("script", ["--quiet", "--return", "--echo", "never", "--command", command, "/dev/null"], {
    env: { PATH, NODE_COMPILE_CACHE, TERM: "xterm-256color", SHELL: "/bin/sh", ...env },
    cwd,
  });
  let shown = "";
  let from = 0;
  const left = [...answers];
  terminal.stdout.on("data", (chunk: Buffer) => {
    shown += chunk.toString();
    const [prompt, typed] = left[0] ?? [];
    if (prompt === undefined || typed === undefined || !shown.includes(prompt, from)) return;
    from = shown.length;
    left.shift();
    void Promise.resolve(typeof typed === "string" ? typed : typed()).then((text) => terminal.stdin.write(text));
  });
  const code = await exitCode(terminal);
  return { code, shown };
}
