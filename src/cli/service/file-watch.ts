import { hash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { createPolledWatch, type PolledWatch } from "../../base/polled-watch.ts";

/** Watches the content of a file. */
export async function createFileWatch(path: string, pollIntervalMs?: number): Promise<PolledWatch> {
  return createPolledWatch(await fingerprintOf(path), () => fingerprintOf(path), pollIntervalMs);
}

/** A hash, since the file may contain secrets, or the code of the error if it can't be read. */
async function fingerprintOf(path: string): Promise<string> {
  try {
    // A pipe can be read only once.
    return (await stat(path)).isFile() ? hash("sha256", await readFile(path)) : "not a file";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "error";
  }
}
