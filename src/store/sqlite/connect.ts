import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { toOpenError } from "../sqlite-error.ts";
import { assertFlowgateDatabase } from "./schema.ts";

/** How long a connection waits for a lock. The one of the event loop blocks it during that time. */
const lockTimeoutMs = { eventLoop: 500, thread: 5_000 };

/** Opens the connection of the event loop. Creates the database file if it is missing. */
export function connect(path: string): DatabaseSync {
  return new DatabaseSync(path, { timeout: lockTimeoutMs.eventLoop, enableForeignKeyConstraints: true });
}

/** Opens the connection of a thread to an existing database. */
export function connectThread(path: string): DatabaseSync {
  const url = pathToFileURL(path);
  url.searchParams.set("mode", "rw");
  const db = new DatabaseSync(url, { timeout: lockTimeoutMs.thread, enableForeignKeyConstraints: true });
  db.exec(fullSync);
  return db;
}

/** Must be set on each connection: a commit is on the disk before it returns. */
export const fullSync = "PRAGMA synchronous = FULL";

/** Opens an existing database for a command, which waits longer for locks. Throws if it is not a Flowgate database, or a newer one. */
export function connectCommand(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: lockTimeoutMs.thread });
  try {
    assertFlowgateDatabase(db, path);
    return db;
  } catch (error) {
    db.close();
    throw toOpenError(error, path);
  }
}
