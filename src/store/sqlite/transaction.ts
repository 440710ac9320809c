import type { DatabaseSync } from "node:sqlite";

/** Runs `work` alone among all processes that write, and durably; an error undoes it. */
export function inTransaction<T>(db: DatabaseSync, work: () => T): T {
  try {
    db.exec("BEGIN IMMEDIATE");
    const result = work();
    db.exec("COMMIT");
    return result;
  } catch (error) {
    // SQLite has rolled back by itself after some errors, a full disk among them.
    if (db.isTransaction) {
      db.exec("ROLLBACK");
    }
    throw error;
  }
}
