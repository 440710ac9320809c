import { closeSync, fstatSync, openSync, writeSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";

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
