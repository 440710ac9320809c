import type { DatabaseSync } from "node:sqlite";

/** Runs `work` in a transaction that excludes other writers. Rolls back and rethrows if it throws. */
export function inTransaction<T>(db: DatabaseSync, work: () => T): T {
  try {
    db.exec("BEGIN IMMEDIATE");
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    // SQLite rolls back automatically after some errors, such as a full disk.
    if (db.isTransaction) {
      db.exec("ROLLBACK");
    }
    throw error;
  }
}
