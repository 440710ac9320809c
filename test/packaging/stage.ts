import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { workspaces } from "../../scripts/workspaces.ts";

export const root = resolve(import.meta.dirname, "../..");

export type Stage = AsyncDisposable & {
  /** A copy of the checkout, with its dependencies. */
  readonly checkout: string;
  /** An empty folder. */
  readonly empty: string;
  /** Runs a program in the checkout, or in another folder, and returns its output; throws if it fails. */
  run(file: string, args: readonly string[], options?: { cwd?: string; env?: NodeJS.ProcessEnv }): Promise<string>;
  /** Builds and packs the packages of this repository; returns the paths of their archives. */
  pack(): Promise<string[]>;
};

/** A copy of the checkout to build in, since a build in the checkout itself would interfere with other tests. */
export async function openStage(): Promise<Stage> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-packaging-"));
  const checkout = join(folder, "checkout");
  const empty = join(folder, "empty");
  const left = /^(?:node_modules|(?:packages\/\w+\/)?dist|data|coverage|\.git)$/;
  await cp(root, checkout, { recursive: true, filter: (path) => !left.test(relative(root, path)) });
  linkModules(checkout);
  await mkdir(empty);
  const run: Stage["run"] = async (file, args, { cwd = checkout, env = process.env } = {}) =>
    (await promisify(execFile)(file, args, { cwd, env, maxBuffer: 16 * 1024 * 1024 })).stdout;
  return {
    checkout,
    empty,
    run,
    async pack() {
      await run("npm", ["run", "--silent", "build"]);
      const folders = [...workspaces.map((workspace) => `./${workspace}/dist`), "."];
      const packed = JSON.parse(
        await run("npm", ["pack", "--json", "--silent", "--ignore-scripts", ...folders]),
      ) as readonly { filename: string }[];
      return packed.map(({ filename }) => join(checkout, filename));
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

/** Links the installed dependencies into another checkout, whose workspaces are its own. */
export function linkModules(checkout: string): void {
  const modules = join(checkout, "node_modules");
  mkdirSync(join(modules, "@flowgate"), { recursive: true });
  for (const name of readdirSync(join(root, "node_modules"))) {
    if (name !== "@flowgate") {
      symlinkSync(join(root, "node_modules", name), join(modules, name));
    }
  }
  for (const name of readdirSync(join(checkout, "packages"))) {
    symlinkSync(join("../../packages", name), join(modules, "@flowgate", name));
  }
}
