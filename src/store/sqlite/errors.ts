import { FlowgateError } from "@flowgate/flows/errors";
import { commitInDoubt } from "../flow-store.ts";

/** The primary result code of an error of SQLite (https://sqlite.org/rescode.html); undefined for other errors. */
export function sqliteCode(error: unknown): number | undefined {
  const extended = error instanceof Error && "errcode" in error ? error.errcode : undefined;
  return typeof extended === "number" ? extended & 0xff : undefined;
}

export const SQLITE_BUSY = 5;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
export const SQLITE_FULL = 13;
export const SQLITE_CONSTRAINT = 19;
const SQLITE_NOTADB = 26;

/** True if the file is damaged, or not a database. */
export function isDamaged(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/** Marks the error of a commit that may have been made. The mark is kept when the error is sent to another thread. */
export function markInDoubt(error: unknown): void {
  Object.assign(error as Error, { isInDoubt: true });
}

export function isInDoubt(error: unknown): boolean {
  return error instanceof Error && "isInDoubt" in error;
}

/** The error of an operation that was not begun, since the storage has failed before. */
export function storageFailure(): Error {
  return Object.assign(new Error("the database's storage has failed"), { errcode: SQLITE_IOERR });
}

/** Converts an error of SQLite that callers can act on to a `FlowgateError`; returns other errors unchanged. */
export function toFlowgateError(error: unknown): unknown {
  if (isInDoubt(error)) {
    return commitInDoubt();
  }
  switch (sqliteCode(error)) {
    case SQLITE_IOERR:
      return new FlowgateError("unavailable", "the database's storage has failed: try again");
    case SQLITE_BUSY:
      return new FlowgateError("unavailable", "the database is locked by another process: try again");
    case SQLITE_FULL:
      return new FlowgateError("unavailable", "the database's disk is full: make room and try again");
    default:
      return error;
  }
}

/** As `toFlowgateError`, for an error of opening the database at `path`. */
export function toOpenError(error: unknown, path: string): unknown {
  return isDamaged(error)
    ? new Error(`${path} is not a SQLite database, or is damaged: restore it from a backup, or use another file.`, {
        cause: error,
      })
    : toFlowgateError(error);
}
