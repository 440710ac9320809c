import { closeSync, existsSync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { connectCommand } from "./connect.ts";

/** What to do if the database of a store does not exist. */
export const storeHint =
  "name the data directory with --data-dir, FLOWGATE_DATA_DIR or dataDir, or the store with --store, FLOWGATE_STORE or store";
/** What to do if a backup does not exist. */
export const backupHint = "name a file created by flowgate backup";

export function assertExists(path: string, hint: string): void {
  if (!existsSync(path)) {
    throw new Error(`${path} does not exist: ${hint}`);
  }
}

/** Throws if a page or an index of the database is damaged. `path` is named in the error. */
export function assertIntact(db: DatabaseSync, path: string): void {
  const [check] = db.prepare("PRAGMA integrity_check").all();
  if (check?.["integrity_check"] !== "ok") {
    throw new Error(`${path} is damaged: use another backup.`);
  }
}

/** Merges the write-ahead log into the file. */
export function disableWal(path: string): void {
  using db = connectCommand(path);
  db.exec("PRAGMA journal_mode = DELETE");
}

/** Creates a file that only this user can read. Throws if it exists. */
export function createFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "EEXIST") {
      throw alreadyExists(path);
    }
    if (code === "ENOENT") {
      throw new Error(`the directory ${dirname(path)} does not exist: create it, or name another file.`, {
        cause: error,
      });
    }
    throw error;
  }
}

export function alreadyExists(path: string): Error {
  return new Error(`${path} already exists: move it away, or name another file.`);
}

/** Makes the content of a file, or the names in a directory, durable. */
export function sync(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
