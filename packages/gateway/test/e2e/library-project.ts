import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { type Installation, installOnce } from "../../../../test/packaging/install-once.ts";

const root = resolve(import.meta.dirname, "../../../..");

export const readme = await readFile(join(root, "packages/gateway/README.md"), "utf8");

/** The frameworks of the examples that nothing else in this repository needs, and the lowest TypeScript that compiles all examples. */
export const installFrameworks = (): Promise<Installation> =>
  installOnce({
    "@nestjs/common": "11.2.10",
    "@nestjs/core": "11.2.10",
    "@nestjs/platform-express": "11.2.10",
    "@types/koa": "3.0.3",
    koa: "3.3.0",
    miniflare: "4.20260426.0",
    "reflect-metadata": "0.2.2",
    rxjs: "7.8.2",
    typescript: "5.2.2",
  });

/** Writes files of the tutorial to a folder. */
export async function writeTutorial(folder: string, files: readonly string[]): Promise<void> {
  for (const file of files) {
    const text = readme.split(`file=${file}\n`)[1]?.split("\n```")[0];
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), text ?? `${file} is missing`);
  }
}

/** Generates code with the buf and the protoc-gen-es of this checkout. */
export async function generate(folder: string, ...args: readonly string[]): Promise<void> {
  const bin = join(root, "node_modules/.bin");
  const env = { ...process.env, PATH: [bin, process.env["PATH"]].join(delimiter) };
  await promisify(execFile)(join(bin, "buf"), ["generate", ...args], { cwd: folder, env });
}

/** The project of the tutorial with its generated code, and with the dependencies of this checkout and of other installations. */
export async function openLibrary(
  others: readonly string[] = [],
): Promise<AsyncDisposable & { readonly folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), "library-"));
  for (const modules of [...others, join(root, "node_modules")]) {
    await linkAll(modules, join(folder, "node_modules"));
  }
  await cp(join(root, "packages/gateway/proto"), join(folder, "proto"), { recursive: true });
  await writeTutorial(folder, ["package.json", "proto/library/v1/library.proto", "library.ts", "buf.gen.yaml"]);
  await generate(folder, "proto");
  return { folder, [Symbol.asyncDispose]: () => rm(folder, { recursive: true }) };
}

/** Links the packages of a `node_modules` into another one, unless it has them. */
async function linkAll(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  const existing = new Set(await readdir(to));
  for (const name of await readdir(from)) {
    if (name.startsWith("@")) {
      await linkAll(join(from, name), join(to, name));
    } else if (!existing.has(name) && !name.startsWith(".")) {
      await symlink(join(from, name), join(to, name));
    }
  }
}
