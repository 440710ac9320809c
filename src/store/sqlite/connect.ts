import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";

/** Opens one more connection to a database that exists. With FULL each commit is on the disk before it returns. */
export function connect(path: string): DatabaseSync {
  const url = pathToFileURL(path);
  url.searchParams.set("mode", "rw");
  const db = new DatabaseSync(url, connectionOptions);
  db.exec("PRAGMA synchronous = FULL");
  return db;
}

/** Of every connection. */
export const connectionOptions = { timeout: 500, enableForeignKeyConstraints: true };
