import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { hasCode } from "../../base/error-code.ts";
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

/**
 * Returns a function that changes the owner of a file to the owner of the database, which is the user that runs the service.
 * Throws if this process can't change owners, because the service could not open such files.
 */
export function createOwnerSetter(folder: string, path: string): (file: string) => void {
  const owner = findOwner(folder, path);
  const uid = process.geteuid?.();
  if (owner === undefined || owner.uid === uid) {
    return () => {};
  }
  if (uid !== 0) {
    throw new Error(`${folder} belongs to the user ${owner.uid}: run this as that user, or as root.`);
  }
  const setOwner = (file: string): void => {
    try {
      chownSync(file, owner.uid, owner.gid);
    } catch (error) {
      // Root without the capability CAP_CHOWN, for example in a container.
      throw new Error(
        `root can't change the owner of files to the user ${owner.uid}, who owns ${folder}: run this as that user.`,
        { cause: error },
      );
    }
  };
  const probe = mkdtempSync(`${folder}/.flowgate-`);
  try {
    setOwner(probe);
  } finally {
    rmdirSync(probe);
  }
  return setOwner;
}

/** Uses the owner of the database if root owns the folder, as with volumes that only have the group of the service. */
function findOwner(folder: string, path: string): Stats | undefined {
  const directory = statSync(folder, { throwIfNoEntry: false });
  return directory?.uid === 0 ? statSync(path, { throwIfNoEntry: false }) : directory;
}
