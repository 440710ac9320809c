import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";

export const root = resolve(import.meta.dirname, "../..");

export type Stage = AsyncDisposable & {
  /** A copy of the checkout, with its dependencies. */
  readonly checkout: string;
  /** An empty folder. */
  readonly empty: string;
  /** Runs a program in the checkout, or elsewhere, and gives what it prints; throws where it fails. */
  run(file: string, args: readonly string[], options?: { cwd?: string; env?: NodeJS.ProcessEnv }): Promise<string>;
};

/** Where a test may build: in the checkout itself it would take the package from under others. */
export async function openStage(): Promise<Stage> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-packaging-"));
  const checkout = join(folder, "checkout");
  const empty = join(folder, "empty");
  const left = new Set(["node_modules", "dist", "data", "coverage", ".git"]);
  await cp(root, checkout, { recursive: true, filter: (path) => !left.has(relative(root, path)) });
  await symlink(join(root, "node_modules"), join(checkout, "node_modules"));
  await mkdir(empty);
  return {
    checkout,
    empty,
    run: async (file, args, { cwd = checkout, env = process.env } = {}) =>
      (await promisify(execFile)(file, args, { cwd, env, maxBuffer: 16 * 1024 * 1024 })).stdout,
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}
