import { type Dirent, mkdirSync, readdirSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { hasCode, isScarcity } from "./error-code.ts";

/**
 * Creates the directory and its missing parents with the given mode; an existing directory is left unchanged. Throws ENOENT
 * if the parent exists but can't contain directories, as below /proc or in a deleted working directory, for which Node's
 * recursive mkdir retries indefinitely.
 */
export function makeDirectory(path: string, mode = 0o700): void {
  try {
    createUnlessExists(path, mode);
  } catch (error) {
    const parent = dirname(path);
    if (!hasCode(error, "ENOENT") || parent === path) {
      throw error;
    }
    makeDirectory(parent, mode);
    createUnlessExists(path, mode);
  }
}

function createUnlessExists(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!hasCode(error, "EEXIST") || !statSync(path).isDirectory()) {
      throw error;
    }
  }
}

/**
 * Yields all entries below a directory. Unlike Node's readdir with `recursive`, it does not follow symbolic links, which can lead to
 * other directories, and to the same ones again and again.
 */
export function* walkDirectory(directory: string): Generator<Dirent> {
  const directories = [directory];
  // Includes what is added meanwhile.
  for (const path of directories) {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      yield entry;
      if (entry.isDirectory()) {
        directories.push(join(path, entry.name));
      }
    }
  }
}

/** True if a path is the folder or in it, as far as its text says. */
export function isWithin(folder: string, path: string): boolean {
  return !/^\.\.(?:\/|$)/.test(relative(folder, path));
}

/** The sorted names of what is in a directory; none if it can't be read. Rejects if the system lacks resources. */
export async function readNames(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).toSorted();
  } catch (error) {
    if (isScarcity(error)) {
      throw error;
    }
    return [];
  }
}
