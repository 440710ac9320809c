import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { hasCode } from "@flowgate/base/error-code";
import { nowMs, type Query } from "../sql/query.ts";
import { markInDoubt, SQLITE_BUSY, SQLITE_CONSTRAINT, SQLITE_FULL, sqliteCode } from "./errors.ts";

/** The time that a connection waits for a lock. The event loop's connection blocks it meanwhile. */
export const lockTimeoutMs = { eventLoop: 500, thread: 5_000 };

/** Must be set on each connection: a commit is on the disk before it returns. */
export const fullSync = "PRAGMA synchronous = FULL";

/** Opens the connection of the event loop. Creates the database file if it is missing. */
export function connect(path: string): DatabaseSync {
  return new DatabaseSync(path, { timeout: lockTimeoutMs.eventLoop, enableForeignKeyConstraints: true });
}

export function connectThread(path: string): DatabaseSync {
  const url = pathToFileURL(path);
  url.searchParams.set("mode", "rw");
  const db = new DatabaseSync(url, { timeout: lockTimeoutMs.thread, enableForeignKeyConstraints: true });
  db.exec(fullSync);
  return db;
}

/** Filters have statements of their own, for which there is space beside the constant ones. */
const maxStatements = 100;

/** Returns the function that runs statements. It keeps them, and prepares them again after the database was closed and opened. */
export function queryOf(db: DatabaseSync): Query {
  const statements = new Map<string, StatementSync>();

  function prepare(text: string): StatementSync {
    if (statements.size >= maxStatements) {
      statements.clear();
    }
    const statement = db.prepare(translate(text));
    statements.set(text, statement);
    return statement;
  }

  return async <Row extends object>(text: string, values: readonly unknown[] = []) => {
    const parameters = values as readonly SQLInputValue[];
    const statement = statements.get(text) ?? prepare(text);
    try {
      return statement.all(...parameters) as Row[];
    } catch (error) {
      if (!hasCode(error, "ERR_INVALID_STATE")) {
        throw error;
      }
      statements.clear();
      return prepare(text).all(...parameters) as Row[];
    }
  };
}

/** Translates a statement for PostgreSQL. Its rows need no lock, since transactions that write exclude each other. */
function translate(text: string): string {
  return text
    .replaceAll("flowgate.", "")
    .replaceAll(nowMs, "CAST(round(1000 * unixepoch('subsec')) AS INTEGER)")
    .replace(/ FOR (UPDATE( SKIP LOCKED)?|SHARE)$/, "")
    .replaceAll(/\$(\d+)/g, "?$1");
}

/**
 * Runs `work` in a transaction that excludes other writers. Rolls back and rejects if it rejects. If the disk fails during the
 * commit, the error is marked as in doubt: the transaction may be complete in the write-ahead log.
 *
 * Not for a connection of the event loop: while one waits, another could block it, which waits for the lock.
 */
export async function inTransaction<T>(db: DatabaseSync, work: () => Promise<T>): Promise<T> {
  try {
    db.exec("BEGIN IMMEDIATE");
    const result = await work();
    commit(db);
    return result;
  } catch (error) {
    rollBack(db);
    throw error;
  }
}

/** As `inTransaction`, without waiting. */
export function inSyncTransaction(db: DatabaseSync, work: () => void): void {
  try {
    db.exec("BEGIN IMMEDIATE");
    work();
    commit(db);
  } catch (error) {
    rollBack(db);
    throw error;
  }
}

function rollBack(db: DatabaseSync): void {
  // SQLite rolls back automatically after some errors, such as a full disk.
  if (db.isTransaction) {
    db.exec("ROLLBACK");
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
