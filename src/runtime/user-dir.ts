import { chmodSync, realpathSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeDirectory } from "../base/directories.ts";
import type { CompleteOptions } from "./options.ts";

/** Creates the runtime's directory if it is missing, makes it private to its owner, and returns its real path. */
export function prepareUserDir(path: string): string {
  makeDirectory(path);
  chmodSync(path, 0o700);
  return realpathSync(path);
}

/** Removes all that flows have written to the runtime's directory. Symbolic links are not followed. Failures are logged. */
export async function removeContent({ dir, log }: Pick<CompleteOptions, "dir" | "log">): Promise<void> {
  try {
    const names = await readdir(dir);
    await Promise.all(names.map((name) => rm(join(dir, name), { recursive: true, force: true })));
    log({ level: "info", message: "the files in runtime.dir were removed" }, "runtime");
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    log({ level: "error", message: `not all files in runtime.dir could be removed (${reason})` }, "runtime");
  }
}
