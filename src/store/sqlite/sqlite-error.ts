/** The primary result code of an error that SQLite gave (https://sqlite.org/rescode.html). */
export function sqliteCode(error: unknown): number | undefined {
  const extended = error instanceof Error && "errcode" in error ? error.errcode : undefined;
  return typeof extended === "number" ? extended & 0xff : undefined;
}

export const SQLITE_BUSY = 5;
export const SQLITE_CORRUPT = 11;
export const SQLITE_FULL = 13;
export const SQLITE_NOTADB = 26;
