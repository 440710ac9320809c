import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";

/** How long a connection waits for others; the event loop's own blocks it meanwhile. */
const lockTimeoutMs = { eventLoop: 500, thread: 5_000 };

/** Opens the event loop's connection; makes the database's file where there is none. */
export function connect(path: string): DatabaseSync {
  return new DatabaseSync(path, { timeout: lockTimeoutMs.eventLoop, enableForeignKeyConstraints: true });
}

/** Opens a thread's connection to a database that exists. */
export function connectThread(path: string): DatabaseSync {
  const url = pathToFileURL(path);
  url.searchParams.set("mode", "rw");
  const db = new DatabaseSync(url, { timeout: lockTimeoutMs.thread, enableForeignKeyConstraints: true });
  db.exec(fullSync);
  return db;
}

/** Of each connection: a commit is on the disk before it returns. */
export const fullSync = "PRAGMA synchronous = FULL";
