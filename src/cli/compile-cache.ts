import { mkdirSync, statSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { join } from "node:path";

/**
 * Enables Node's compile cache, which is written when the process exits and speeds up the next start.
 *
 * The cache is in the data directory, if that exists already. Since cached code is executed in this process, the folder
 * must belong to this user and not be writable by others.
 */
export function useCompileCache(dataDir: string): void {
  const folder = join(dataDir, "compile-cache");
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      // The data directory does not exist yet, or is not writable, which the service itself reports.
      return;
    }
  }
  const { uid, mode } = statSync(folder);
  if (uid === process.getuid?.() && (mode & 0o022) === 0) {
    enableCompileCache(folder);
  }
}
