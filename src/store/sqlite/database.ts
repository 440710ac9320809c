import { chmodSync, closeSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { makeDirectory } from "../../base/directories.ts";
import { connect, fullSync } from "./connect.ts";
import { toOpenError } from "../sqlite-error.ts";
import { reserveLog } from "./reserve-log.ts";
import { migrate, readVersion, setVersion } from "./schema.ts";
import { inTransaction } from "./transaction.ts";

/**
 * Opens the database at `path`, and creates it or migrates an older schema. Throws if the file is not a Flowgate database or
 * has a newer schema.
 */
export function openDatabase(path: string): DatabaseSync {
  makeDirectory(dirname(path));
  createPrivateFile(path);
  const db = connect(path);
  try {
    configure(db, path);
    enableIncrementalVacuum(db);
    reserveLog(db, path);
    return db;
  } catch (error) {
    db.close();
    throw toOpenError(error, path);
  }
}

function configure(db: DatabaseSync, path: string): void {
  // Checks the version first, since the next statement writes to the file.
  readVersion(db, path);
  db.exec(`PRAGMA journal_mode = WAL; ${fullSync}`);
  makePrivate(path);
  migrate(db, path);
}

/**
 * Opens the connection anew after a failed commit, when it is the only one of this process. Then the database either contains that
 * commit or does not, also after a failure of the machine. Throws if that can't be achieved, and can be called again.
 */
export function reopenDatabase(db: DatabaseSync, path: string): void {
  if (db.isOpen) {
    // The last connection moves what was committed from the write-ahead log to the database. If it can't, the log is read again.
    db.close();
  }
  db.open();
  configure(db, path);
  // A failed fsync may have left parts of the log in memory only, which no later one writes. The database file is written anew.
  if (db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.["busy"] !== 0) {
    throw new Error("another process reads the database");
  }
  reserveLog(db, path);
}

/** Lets the file shrink when revisions are removed. Rewrites a database that was created without this setting. */
function enableIncrementalVacuum(db: DatabaseSync): void {
  if (db.prepare("PRAGMA auto_vacuum").get()?.["auto_vacuum"] === 0) {
    db.exec("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
  }
}

/** Throws if the database can't be read or durably written. Changes nothing. */
export function checkDatabase(db: DatabaseSync): void {
  inTransaction(db, () => {
    db.prepare("SELECT rev FROM revision ORDER BY seq DESC LIMIT 1").get();
    setVersion(db);
  });
}

/**
 * Creates the file with mode 600 before SQLite would create it with the mode of the umask. An existing file is not opened:
 * closing a file drops all locks that this process has on it, those of other connections included
 * (https://sqlite.org/howtocorrupt.html, 2.2). Therefore the function is synchronous too.
 */
function createPrivateFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!hasCode(error, "EEXIST")) {
      throw error;
    }
  }
}

function makePrivate(path: string): void {
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    try {
      chmodSync(file, 0o600);
    } catch (error) {
      if (!hasCode(error, "ENOENT")) {
        throw error;
      }
    }
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
