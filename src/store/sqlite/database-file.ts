import { closeSync, existsSync, fsyncSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { hasCode } from "@flowgate/base/error-code";
import { lockTimeoutMs } from "./connection.ts";
import { toOpenError } from "./errors.ts";
import { assertFlowgateDatabase } from "./schema.ts";

/** Opens an existing database for a command, which waits longer for locks. Throws if it is not a Flowgate database, or a newer one. */
export function connectCommand(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: lockTimeoutMs.thread });
  try {
    assertFlowgateDatabase(db, path);
    return db;
  } catch (error) {
    db.close();
    throw toOpenError(error, path);
  }
}

/** The advice for a missing database of a store. */
export const storeHint =
  "name the data directory with --data-dir, FLOWGATE_DATA_DIR or dataDir, or the store with --store, FLOWGATE_STORE or store";
/** The advice for a missing backup. */
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
    if (hasCode(error, "EEXIST")) {
      throw alreadyExists(path);
    }
    if (hasCode(error, "ENOENT")) {
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
