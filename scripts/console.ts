// Builds the web console, with what is sent of it compressed beside its files: `npm run build:console`.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { extname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import { build } from "vite";

const root = resolve(import.meta.dirname, "..");

/** Where the service serves it from. */
export const consoleDir = join(root, "dist/console");

const compressed: ReadonlySet<string> = new Set([".css", ".js", ".svg"]);

export async function buildConsole(): Promise<void> {
  const folder = join(root, "packages/console");
  await build({ root: folder, configFile: join(folder, "vite.config.ts"), logLevel: "warn" });
  for (const entry of await readdir(consoleDir, { recursive: true, withFileTypes: true })) {
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
