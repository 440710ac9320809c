import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { exitCode } from "../cli/run-cli.ts";

export type Execution = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

type Surroundings = {
  readonly cwd?: string;
  /** Besides PATH and HOME. */
  readonly env?: Readonly<Record<string, string | undefined>>;
};

/** Runs a program, and waits for its exit. */
export async function execute(
  program: string,
  args: readonly string[],
  { cwd, env = {} }: Surroundings = {},
): Promise<Execution> {
  const { PATH, HOME } = process.env;
  const child = spawn(program, args, { cwd, env: { PATH, HOME, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), exitCode(child)]);
  return { code, stdout, stderr };
}

/** The same for a program that has to succeed. Returns its output. */
export async function succeed(...[program, args, surroundings]: Parameters<typeof execute>): Promise<string> {
  const { code, stdout, stderr } = await execute(program, args, surroundings);
  if (code !== 0) {
    throw new Error(`${program} ${args.join(" ")} ended with ${code}:\n${stdout}${stderr}`);
  }
  return stdout;
}
