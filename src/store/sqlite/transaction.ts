import type { DatabaseSync } from "node:sqlite";
import { SQLITE_BUSY, SQLITE_CONSTRAINT, SQLITE_FULL, markInDoubt, sqliteCode } from "./errors.ts";

/**
 * Runs `work` in a transaction that excludes other writers. Rolls back and rethrows if it throws. If the disk fails during the
 * commit, the error is marked as in doubt: the transaction may be complete in the write-ahead log.
 */
export function inTransaction<T>(db: DatabaseSync, work: () => T): T {
  try {
    db.exec("BEGIN IMMEDIATE");
    const result = work();
    commit(db);
    return result;
  } catch (error) {
    // SQLite rolls back automatically after some errors, such as a full disk.
    if (db.isTransaction) {
      db.exec("ROLLBACK");
    }
    throw error;
  }
}

/** Failures after which the write-ahead log does not contain the whole transaction. */
const incomplete: ReadonlySet<number | undefined> = new Set([SQLITE_BUSY, SQLITE_CONSTRAINT, SQLITE_FULL]);

function commit(db: DatabaseSync): void {
  try {
    db.exec("COMMIT");
  } catch (error) {
    if (!incomplete.has(sqliteCode(error))) {
      markInDoubt(error);
    }
    throw error;
  }
}
