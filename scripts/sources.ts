import { hash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

export const root = resolve(import.meta.dirname, "..");

/** All files of a folder of this checkout, relative to it. Faster than globSync. Empty if the folder does not exist. */
export function listFiles(folder: string): string[] {
  const path = join(root, folder);
  const entries = existsSync(path) ? readdirSync(path, { recursive: true, withFileTypes: true }) : [];
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(root, join(entry.parentPath, entry.name)));
}

/** Identifies the content of files and the version of Node, which decide about a build. */
export function digestFiles(files: readonly string[]): string {
  const contents = files.toSorted().map((file) => [file, hash("sha256", readFileSync(join(root, file)))]);
  return hash("sha256", JSON.stringify([process.version, contents]));
}
