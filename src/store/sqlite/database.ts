import { chmodSync, closeSync, fstatSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { makeDirectory } from "@flowgate/base/directories";
import { hasCode } from "@flowgate/base/error-code";
import { connect, fullSync, inSyncTransaction } from "./connection.ts";
import { toOpenError } from "./errors.ts";
import { migrate, readVersion, setVersion } from "./schema.ts";

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
  // The first one lets the file shrink when revisions are removed, and only affects an empty database.
  db.exec(`PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; ${fullSync}`);
  makePrivate(path);
  migrate(db, path);
}

/**
 * Opens the connection anew after a failed commit, when it is the only one of this process. Then the database either contains that
 * commit or does not, also after a failure of the machine. Throws if that can't be achieved, and can be called again.
 */
export function reopenDatabase(db: DatabaseSync, path: string): void {
  if (db.isOpen) {
    // The last connection moves commits from the write-ahead log to the database. If it can't, the log is read again.
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

/** Throws if the database can't be read or durably written. Changes nothing. */
export function checkDatabase(db: DatabaseSync): void {
  inSyncTransaction(db, () => {
    db.prepare("SELECT rev FROM revision ORDER BY seq DESC LIMIT 1").get();
    setVersion(db);
  });
}

/**
 * Creates the file with mode 600 before SQLite would create it with the mode of the umask. An existing file is not
 * opened: closing a file drops all locks that this process has on it, including other connections'
 * (https://sqlite.org/howtocorrupt.html, 2.2). Therefore the function is synchronous too.
 */
export function createPrivateFile(path: string): void {
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

/** Checkpoints begin at 4 MiB of commits. The rest is for deployments on a full disk. */
const reservedBytes = 12 * 1024 * 1024;
const zeros = new Uint8Array(1024 * 1024);

/**
 * Extends the file of the write-ahead log by zeros, so that commits on a full disk need no more space: SQLite writes over what the
 * file contains behind the last commit, and ignores it when it reads the log (https://sqlite.org/fileformat2.html#walformat).
 * Unlike space that is freed when the disk is full, flows can't take it. A disk with less space is used as far as possible.
 */
export function reserveLog(db: DatabaseSync, path: string): void {
  try {
    // No other process may append to the file meanwhile. It has no locks, which closing it would drop.
    db.exec("BEGIN IMMEDIATE");
    extend(`${path}-wal`);
  } catch {
    // If the disk has failed or is full, so do the commits, whose errors are reported.
  } finally {
    if (db.isTransaction) {
      db.exec("ROLLBACK");
    }
  }
}

function extend(path: string): void {
  const file = openSync(path, "r+");
  try {
    let { size } = fstatSync(file);
    while (size < reservedBytes) {
      size += writeSync(file, zeros, 0, Math.min(zeros.length, reservedBytes - size), size);
    }
  } finally {
    closeSync(file);
  }
}

/** Fewer free pages (of 4 KiB) are left for the next revisions. */
const maxFreePages = 256;

/** Returns free pages to the file system. */
export function freeSpace(db: DatabaseSync): void {
  const free = Number(db.prepare("PRAGMA freelist_count").get()?.["freelist_count"]);
  if (free > maxFreePages) {
    db.exec("PRAGMA incremental_vacuum");
  }
}
