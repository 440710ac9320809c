import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

/** Runs a program, and waits for its exit. */
export async function run(program: string, ...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { stdout, stderr };
}

/** Reports skipped tests. */
export function isMissing(what: string, isThere: boolean): boolean {
  if (!isThere) {
    process.stderr.write(`The tests of ${what} are skipped: it is not installed.\n`);
  }
  return !isThere;
}
