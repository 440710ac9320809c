// Builds the web console, with what is sent of it compressed beside its files: `npm run build:console`.
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { extname, join, relative } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import { digestFiles, listFiles, root } from "./sources.ts";

const dist = join(root, "dist");
/** Where the service serves it from. */
const consoleDir = join(dist, "console");
/** Beside it: the digest of the sources that it was built from, and the modules that it contains, relative to the root. */
const recordFile = join(dist, "console.json");

const compressed: ReadonlySet<string> = new Set([".css", ".js", ".svg"]);

/**
 * Builds the console unless that was done with the present sources, and returns the paths of the modules that it contains.
 * `onBuild` is called before it is built.
 */
export async function ensureConsole(onBuild = (): void => {}): Promise<string[]> {
  const record = await readFile(recordFile, "utf8").catch(() => undefined);
  const { digest, modules } = JSON.parse(record ?? "{}") as { digest?: string; modules?: string[] };
  if (modules === undefined || digest !== digestSources()) {
    onBuild();
    return buildConsole();
  }
  return modules.map((path) => join(root, path));
}

/** Builds the console, and returns the paths of the modules that it contains. */
export async function buildConsole(): Promise<string[]> {
  const digest = digestSources();
  // Not by mkdtemp: other users can't read such a folder.
  const unfinished = join(dist, `console-unfinished-${process.pid}`);
  await mkdir(unfinished, { recursive: true });
  try {
    const modules = await bundle(unfinished);
    await compressFiles(unfinished);
    await rm(consoleDir, { recursive: true, force: true });
    await rename(unfinished, consoleDir);
    await writeFile(recordFile, JSON.stringify({ digest, modules: modules.map((path) => relative(root, path)) }));
    return modules;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

function digestSources(): string {
  const packages = ["packages/client", "packages/console", "packages/gateway"];
  const others = ["scripts/console.ts", "node_modules/.package-lock.json"];
  return digestFiles([...packages.flatMap((folder) => sourcesOf(folder)), ...listFiles("gen"), ...others]);
}

function sourcesOf(folder: string): string[] {
  const files = ["src", "gen", "public"].flatMap((name) => listFiles(join(folder, name)));
  const single = ["package.json", "index.html", "tsconfig.json", "vite.config.ts"].map((name) => join(folder, name));
  return [...files, ...single.filter((file) => existsSync(join(root, file)))];
}

async function bundle(outDir: string): Promise<string[]> {
  // Loaded only to build, as it takes a part of a second.
  const { build } = await import("vite");
  const folder = join(root, "packages/console");
  const options = { root: folder, configFile: join(folder, "vite.config.ts"), logLevel: "warn" } as const;
  const { NODE_ENV } = process.env;
  // Vite takes what is set, such as by vitest: the development build of React is much larger.
  process.env["NODE_ENV"] = "production";
  const result = await build({ ...options, build: { outDir, emptyOutDir: true } }).finally(() => {
    if (NODE_ENV === undefined) {
      delete process.env["NODE_ENV"];
    } else {
      process.env["NODE_ENV"] = NODE_ENV;
    }
  });
  const outputs = "output" in result ? [result] : Array.isArray(result) ? result : [];
  const ids = outputs.flatMap(({ output }) => output.flatMap((file) => (file.type === "chunk" ? file.moduleIds : [])));
  // Virtual modules and queries are those of the bundler.
  return ids.map((id) => id.replace(/^\0/, "").replace(/\?.*$/, ""));
}

async function compressFiles(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile() && compressed.has(extname(entry.name))) {
      const path = join(entry.parentPath, entry.name);
      const content = await readFile(path);
      await writeFile(`${path}.br`, await promisify(brotliCompress)(content));
      await writeFile(`${path}.gz`, await promisify(gzip)(content, { level: 9 }));
    }
  }
}

if (import.meta.main) {
  await buildConsole();
}
