import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

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
    if ((error as NodeJS.ErrnoException).code !== "ENOENT" || parent === path) {
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
    if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !statSync(path).isDirectory()) {
      throw error;
    }
  }
}
