import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";

export const root = resolve(import.meta.dirname, "../..");

export type Stage = AsyncDisposable & {
  /** An empty folder. */
  readonly empty: string;
  /** A folder for other files. */
  readonly other: string;
  /** Runs a program in the empty folder, or in another one, and returns its output; throws if it fails. */
  readonly run: typeof run;
};

export async function openStage(): Promise<Stage> {
  const folder = await mkdtemp(join(tmpdir(), "flowgate-packaging-"));
  const [empty, other] = [join(folder, "empty"), join(folder, "other")];
  await mkdir(empty);
  await mkdir(other);
  return {
    empty,
    other,
    run: (file, args, options) => run(file, args, { cwd: empty, ...options }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

export async function run(
  file: string,
  args: readonly string[],
  { env = process.env, cwd }: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  // The compile cache of the tests would grow with each of these folders.
  const options = { cwd, env: { ...env, NODE_COMPILE_CACHE: "" }, maxBuffer: 16 * 1024 * 1024 };
  return promisify(execFile)(file, args, options).then(
    ({ stdout }) => stdout,
    (error: Error & { readonly stdout?: string }) => {
      // Compilers print what is wrong to stdout, of which the message has nothing.
      throw new Error(`${error.message}\n${error.stdout ?? ""}`, { cause: error });
    },
  );
}

/** Copies the checkout, to build in: a build in the checkout itself would interfere with other tests. */
export async function copyCheckout(target: string): Promise<void> {
  const left = /^(?:node_modules|(?:packages\/\w+\/)?dist|data|coverage|\.git)$/;
  await cp(root, target, { recursive: true, filter: (path) => !left.test(relative(root, path)) });
  linkModules(target);
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
