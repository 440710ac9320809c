import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Creates the directory and its missing parents with the given mode; an existing directory is left unchanged. Throws ENOENT
 * if the parent exists but can't contain directories, as below /proc or in a deleted working directory, for which Node's
 * recursive mkdir retries indefinitely.
 */
export function makeDirectory(path: string, mode = 0o700): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const parent = dirname(path);
    if (code === "ENOENT" && parent !== path) {
      makeDirectory(parent, mode);
      mkdirSync(path, { mode });
    } else if (code !== "EEXIST" || !statSync(path).isDirectory()) {
      throw error;
    }
  }
}
