import { chmodSync, closeSync, openSync } from "node:fs";
import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { makeDirectory } from "../../make-directory.ts";
import { connect, fullSync } from "./connect.ts";
import { SQLITE_CORRUPT, SQLITE_NOTADB, sqliteCode, toRefusal } from "../sqlite-error.ts";
import { inTransaction } from "./transaction.ts";

// "FLGT"
const APPLICATION_ID = 0x464c4754;

/** What makes each version of the schema from the one before. A released one never changes. */
const migrations = [
  // A revision names its parent, and no two may name the same one: the database itself settles a race
  // between deployments, whichever process they come from.
  `
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
  `,
  // Earlier tokens are dropped: it is unknown which password hash they were issued under.
  `
  DROP TABLE token;
  CREATE TABLE token (
    hash BLOB PRIMARY KEY,
    username TEXT NOT NULL,
    password_fingerprint BLOB NOT NULL,
    client_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX token_expiry ON token (expires_at_ms);
  `,
];
const SCHEMA_VERSION = migrations.length;

/** Opens the database at `path`, creating it or migrating an older schema; refuses what it doesn't know. */
export function openDatabase(path: string): DatabaseSync {
  makeDirectory(dirname(path));
  createPrivate(path);
  const db = connect(path);
  try {
    const version = readVersion(db, path);
    // After the check, for it writes to the file.
    db.exec(`PRAGMA journal_mode = WAL; ${fullSync}`);
    makePrivate(path);
    if (version < SCHEMA_VERSION) {
      migrate(db, path);
    }
    return db;
  } catch (error) {
    db.close();
    throw explain(error, path);
  }
}

function migrate(db: DatabaseSync, path: string): void {
  inTransaction(db, () => {
    // Read again: another process may have been faster.
    for (const migration of migrations.slice(readVersion(db, path))) {
      db.exec(migration);
    }
    db.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  });
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

/** Throws where the database is not one of ours, of this version or an earlier one. */
export function assertFlowgateDatabase(db: DatabaseSync, path: string): void {
  if (readVersion(db, path) === 0) {
    throw new Error(`${path} is empty: it holds no flows.`);
  }
}

/** The version of the schema; 0 where the database is empty. Throws where it is not ours to use. */
function readVersion(db: DatabaseSync, path: string): number {
  const row = db
    .prepare(
      `SELECT (SELECT application_id FROM pragma_application_id) AS id, (SELECT user_version FROM pragma_user_version) AS version,
              (SELECT count(*) FROM sqlite_schema) AS objects`,
    )
    .get();
  if (row?.["id"] === 0 && row["version"] === 0 && row["objects"] === 0) {
    return 0;
  }
  if (row?.["id"] !== APPLICATION_ID) {
    throw new Error(`${path} is the database of another program: name another file.`);
  }
  const version = Number(row["version"]);
  if (version > SCHEMA_VERSION) {
    throw new Error(
      `${path} was made by a newer version of Flowgate (its schema is ${version}, this one knows ${SCHEMA_VERSION}): use that version.`,
    );
  }
  return version;
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
