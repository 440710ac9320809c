import { chmodSync, realpathSync } from "node:fs";
import { makeDirectory } from "../make-directory.ts";

/** Creates the runtime's directory if it is missing, makes it private to its owner, and returns its real path. */
export function prepareUserDir(path: string): string {
  makeDirectory(path);
  chmodSync(path, 0o700);
  return realpathSync(path);
}
