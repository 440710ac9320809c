import type { DatabaseSync } from "node:sqlite";
import { FlowgateError } from "../../errors.ts";
import { SQLITE_BUSY, SQLITE_FULL, sqliteCode } from "./sqlite-error.ts";

/** Runs `work` alone among all processes that write, and durably; whatever it throws undoes it. */
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
    switch (sqliteCode(error)) {
      case SQLITE_BUSY:
        throw new FlowgateError("unavailable", "the database is locked by another process: try again");
      case SQLITE_FULL:
        throw new FlowgateError("unavailable", "the database's disk is full: make room and try again");
      default:
        throw error;
    }
  }
}
