import { FlowgateError } from "../errors.ts";

/** The primary result code of an error that SQLite gave (https://sqlite.org/rescode.html). */
export function sqliteCode(error: unknown): number | undefined {
  const extended = error instanceof Error && "errcode" in error ? error.errcode : undefined;
  return typeof extended === "number" ? extended & 0xff : undefined;
}

export const SQLITE_BUSY = 5;
export const SQLITE_CORRUPT = 11;
export const SQLITE_FULL = 13;
export const SQLITE_CONSTRAINT = 19;
export const SQLITE_NOTADB = 26;

/** The error for the caller of an operation; errors that no caller can act on stay as they are. */
export function toRefusal(error: unknown): unknown {
  switch (sqliteCode(error)) {
    case SQLITE_BUSY:
      return new FlowgateError("unavailable", "the database is locked by another process: try again");
    case SQLITE_FULL:
      return new FlowgateError("unavailable", "the database's disk is full: make room and try again");
    default:
      return error;
  }
}
