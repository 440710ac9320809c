import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const sourcePath = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** The built program in tests and drills (test/program.ts), or else its source. */
export const mainPath = process.env["TESTED_PROGRAM"] ?? sourcePath;

export type Command = {
  readonly args: readonly string[];
  /** Its stdin. */
  readonly input: string | Buffer;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string | undefined;
};

export type Outcome = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

/** Without FLOWGATE variables, and without the configuration of the user who runs the tests. */
export function cliEnvironment(env: Readonly<Record<string, string>> = {}): Record<string, string | undefined> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { PATH, NODE_COMPILE_CACHE, XDG_CONFIG_HOME: "/nonexistent", ...env };
}

/** Runs flowgate with this stdin, in a process of its own. */
export async function runCli(
  args: readonly string[],
  {
    input = "",
    env = {},
    ...as
  }: Partial<Pick<Command, "input" | "cwd">> & { env?: Record<string, string>; uid?: number; gid?: number } = {},
): Promise<Outcome> {
  const child = spawn(process.execPath, [mainPath, ...args], { env: cliEnvironment(env), ...as });
  child.stdin.end(input);
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), exitCode(child)]);
  return { code, stdout, stderr };
}

export async function exitCode(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, "close")) as [number | null];
  return code;
}
