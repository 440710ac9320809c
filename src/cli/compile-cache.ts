import { mkdirSync, statSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { join } from "node:path";

/**
 * Keeps compiled code, and TypeScript whose types are stripped, for the next start. Written when the process exits.
 *
 * In the data directory, and only once there is one. Who can write there could have code run in this process: the folder
 * must be of this user, and writable for no one else.
 */
export function keepCompiledCode(dataDir: string): void {
  const folder = join(dataDir, "compile-cache");
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      // There is no data directory yet, or it can't be written: that is for the service to say.
      return;
    }
  }
  const { uid, mode } = statSync(folder);
  if (uid === process.getuid?.() && (mode & 0o022) === 0) {
    enableCompileCache(folder);
  }
}
