// Builds flowgate as a single executable file with Node in it: `npm run build:executable [-- <file>]`, after `npm run build`.
import { execFile } from "node:child_process";
import { hash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { zstdCompressSync } from "node:zlib";
import { build } from "rolldown";
import type { PackedFile } from "../src/cli/service/unpack.ts";

const root = resolve(import.meta.dirname, "..");
const output = resolve(process.argv[2] ?? "dist/flowgate");
/** The package that node_modules links to. The others are part of the built service. */
const linked = [["packages/npm", "node_modules/npm"]] as const;

const work = await mkdtemp(join(tmpdir(), "flowgate-executable-"));
try {
  const main = await bundle(join(root, "src/cli/executable.ts"), work);
  const { files, content } = await pack(await programFiles());
  await writeFile(join(work, "files.json"), JSON.stringify(files));
  await writeFile(join(work, "files"), content);
  const config = join(work, "sea-config.json");
  await writeFile(
    config,
    JSON.stringify({
      main,
      mainFormat: "module",
      output,
      disableExperimentalSEAWarning: true,
      // Compiling the bundle takes a quarter of the time of `flowgate --help`.
      useCodeCache: true,
      // Node flags are not read from the environment, where they could be used to run other code.
      execArgvExtension: "cli",
      // A few large assets, because the time to find one grows with their number.
      assets: {
        "package.json": join(root, "package.json"),
        "files.json": join(work, "files.json"),
        files: join(work, "files"),
      },
    }),
  );
  await promisify(execFile)(process.execPath, ["--build-sea", config]);
  process.stdout.write(`${output}: ${files.length} files included\n`);
} finally {
  await rm(work, { recursive: true });
}

/** Bundles the entry point to one file, because code in the executable can't import files from the disk. */
async function bundle(entry: string, outDir: string): Promise<string> {
  const file = join(outDir, "main.mjs");
  await build({
    cwd: root,
    input: entry,
    platform: "node",
    logLevel: "warn",
    output: { file, format: "es", codeSplitting: false },
  });
  return file;
}

/** Returns the paths of all files that the service reads from the disk, relative to the root. */
async function programFiles(): Promise<string[]> {
  const folders = [
    "dist/src",
    "dist/console",
    "docs-page",
    ...linked.map(([folder]) => folder),
    ...(await productionPackages()),
  ];
  const found = await Promise.all(folders.map(filesIn));
  return ["package.json", "openapi.json", "LICENSE", "dist/licenses.txt", ...found.flat().filter(isNeeded)].toSorted();
}

/** Returns the directories of the packages of a production installation. */
async function productionPackages(): Promise<string[]> {
  const { packages } = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")) as Lockfile;
  return Object.entries(packages)
    .filter(([path]) => path.startsWith("node_modules/"))
    .filter(([, { link, dev, optional, devOptional }]) => !(link ?? dev ?? optional ?? devOptional ?? false))
    .map(([path]) => path)
    .filter((path) => existsSync(join(root, path)));
}

type Lockfile = {
  readonly packages: Readonly<
    Record<string, Readonly<Partial<Record<"link" | "dev" | "optional" | "devOptional", boolean>>>>
  >;
};

/** Returns the files of a directory without nested packages, which the lockfile lists separately. */
async function filesIn(folder: string): Promise<string[]> {
  const path = join(root, folder);
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
    .filter((file) => !file.slice(folder.length).includes("/node_modules/"));
}

/** Excludes source maps, type declarations and readmes, but not licences. */
function isNeeded(file: string): boolean {
  return /licen[cs]e|copying|notice/i.test(file) || !/\.(?:map|md|markdown)$|\.d\.[cm]?ts$/.test(file);
}

/** Concatenates and compresses the files. */
async function pack(paths: readonly string[]): Promise<{ files: PackedFile[]; content: Buffer }> {
  const files: PackedFile[] = [];
  const contents: Buffer[] = [];
  let start = 0;
  for (const path of paths) {
    const content = await readFile(join(root, path));
    const end = start + content.length;
    files.push({
      path: linked.reduce((moved, [folder, target]) => moved.replace(folder, target), path),
      start,
      end,
      sha256: hash("sha256", content),
    });
    contents.push(content);
    start = end;
  }
  return { files, content: zstdCompressSync(Buffer.concat(contents)) };
}
