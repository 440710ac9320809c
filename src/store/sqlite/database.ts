import { chmodSync, closeSync, openSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { connect, durably } from "./connect.ts";
import { SQLITE_CORRUPT, SQLITE_NOTADB, sqliteCode, toRefusal } from "../sqlite-error.ts";
import { inTransaction } from "./transaction.ts";

// "FLGT"
const APPLICATION_ID = 0x464c4754;
const SCHEMA_VERSION = 1;

// A revision names its parent, and no two may name the same one: the database itself settles a race
// between deployments, whichever process they come from.
const schema = `
  CREATE TABLE revision (
    seq INTEGER PRIMARY KEY,
    rev TEXT NOT NULL UNIQUE,
    parent TEXT UNIQUE REFERENCES revision (rev),
    committed_at_ms INTEGER NOT NULL,
    deployed_by TEXT,
    deployment_type TEXT NOT NULL CHECK (deployment_type IN ('full', 'nodes', 'flows', 'reload')),
    flows BLOB NOT NULL,
    credentials BLOB NOT NULL
  ) STRICT;
  CREATE UNIQUE INDEX one_root ON revision (parent IS NULL) WHERE parent IS NULL;

  CREATE TABLE token (
    hash BLOB PRIMARY KEY,
    username TEXT NOT NULL,
    client_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX token_expiry ON token (expires_at_ms);

  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** Opens the database at `path`, and makes it where there is none; refuses what it doesn't know. */
export async function openDatabase(path: string): Promise<DatabaseSync> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  createPrivate(path);
  const db = connect(path);
  try {
    const isNew = checkIdentity(db, path);
    // After the check, for it writes to the file.
    db.exec(`PRAGMA journal_mode = WAL; ${durably}`);
    makePrivate(path);
    if (isNew) {
      inTransaction(db, () => {
        // Another process may have been faster.
        if (checkIdentity(db, path)) {
          db.exec(schema);
        }
      });
    }
    return db;
  } catch (error) {
    db.close();
    throw explain(error, path);
  }
}

/**
 * Makes the file with its mode before SQLite would make it with the umask's. Only where there is none: closing
 * a file drops every lock that this process has on it, another connection's too
 * (https://sqlite.org/howtocorrupt.html, 2.2), and so nothing is awaited in between either.
 */
function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    if (!hasCode(error, "EEXIST")) {
      throw error;
    }
  }
}

function makePrivate(path: string): void {
  for (const file of [path, `${path}-wal`, `${path}-shm`]) {
    try {
      chmodSync(file, 0o600);
    } catch (error) {
      if (!hasCode(error, "ENOENT")) {
        throw error;
      }
    }
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

/** Reads and writes, durably, without changing anything; throws where that can't be done. */
export function touch(db: DatabaseSync): void {
  inTransaction(db, () => {
    db.prepare("SELECT rev FROM revision ORDER BY seq DESC LIMIT 1").get();
    db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  });
}

/** Throws where the database is not one of ours, of this version. */
export function assertOurs(db: DatabaseSync, path: string): void {
  if (checkIdentity(db, path)) {
    throw new Error(`${path} is empty: it holds no flows.`);
  }
}

/** Tells whether the database is empty; throws where it is not ours to use. */
function checkIdentity(db: DatabaseSync, path: string): boolean {
  const row = db
    .prepare(
      `SELECT (SELECT application_id FROM pragma_application_id) AS id, (SELECT user_version FROM pragma_user_version) AS version,
              (SELECT count(*) FROM sqlite_schema) AS objects`,
    )
    .get();
  if (row?.["id"] === 0 && row["version"] === 0 && row["objects"] === 0) {
    return true;
  }
  if (row?.["id"] !== APPLICATION_ID) {
    throw new Error(`${path} is the database of another program: name another file.`);
  }
  if (row["version"] !== SCHEMA_VERSION) {
    throw new Error(
      `${path} was made by another version of Flowgate (its schema is ${String(row["version"])}, this one knows ${SCHEMA_VERSION}): use that version.`,
    );
  }
  return false;
}

/** Says what to do about an error of SQLite's; others stay as they are. */
export function explain(error: unknown, path: string): unknown {
  switch (sqliteCode(error)) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return new Error(
        `${path} is no SQLite database, or a damaged one: restore it from a backup, or name another file.`,
        {
          cause: error,
        },
      );
    default:
      return toRefusal(error);
  }
}
