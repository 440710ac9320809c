import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Makes the directory and its missing parents, and leaves one that exists as it is. In contrast to Node's recursive
 * mkdir, which retries without end, it throws ENOENT where the parent exists but takes no directories: below /proc, or
 * relative to a working directory that was deleted.
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
