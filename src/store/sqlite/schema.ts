import type { DatabaseSync } from "node:sqlite";
import { inSyncTransaction } from "./connection.ts";

// "FLGT"
const applicationId = 0x464c4754;

/** The version of `tables`. Only unreleased builds wrote earlier ones. */
const firstVersion = 17;

const tables = `
  -- A revision names its parent, and no two may name the same one: the database itself settles a race between deployments,
  -- whichever process they come from. A parent may be removed, hence it is no foreign key.
  CREATE TABLE revision (
    seq INTEGER PRIMARY KEY,
    rev TEXT NOT NULL UNIQUE,
    parent TEXT UNIQUE,
    committed_at_ms INTEGER NOT NULL,
    deployed_by TEXT,
    client_address TEXT,
    protocol TEXT,
    request_id TEXT,
    deployment_type TEXT NOT NULL CHECK (deployment_type IN ('full', 'nodes', 'flows', 'reload')),
    cause TEXT NOT NULL,
    restored_rev TEXT,
    node_count INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    message TEXT,
    pinned INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT 'pending',
    outcome_message TEXT,
    missing_types TEXT NOT NULL DEFAULT '[]',
    probation_ms INTEGER,
    token_id TEXT,
    token_name TEXT,
    error_limit_ms INTEGER,
    max_errors INTEGER,
    proposal_id TEXT,
    approved_by TEXT,
    approver_token_id TEXT,
    approver_token_name TEXT,
    module_set_seq INTEGER,
    restarts INTEGER NOT NULL DEFAULT 0
  ) STRICT;
  CREATE UNIQUE INDEX one_root ON revision (parent IS NULL) WHERE parent IS NULL;
  CREATE INDEX revision_module_set ON revision (module_set_seq);

  -- In a table of their own, so that the history is read and changed without them. kept: where credentials of removed nodes are.
  CREATE TABLE revision_content (
    seq INTEGER PRIMARY KEY,
    flows BLOB NOT NULL,
    credentials BLOB NOT NULL,
    kept TEXT NOT NULL DEFAULT '[]',
    submitted TEXT NOT NULL DEFAULT '[]'
  ) STRICT;

  CREATE TABLE idempotency_key (
    user TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    rev TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (user, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_key_age ON idempotency_key (created_at_ms);

  -- session: what a session of a browser keeps, encrypted.
  CREATE TABLE token (
    seq INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    id TEXT NOT NULL UNIQUE,
    name TEXT,
    username TEXT NOT NULL,
    password_fingerprint BLOB NOT NULL,
    client_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at_ms INTEGER,
    expires_at_ms INTEGER NOT NULL,
    last_used_at_ms INTEGER,
    session BLOB
  ) STRICT;
  CREATE INDEX token_expiry ON token (expires_at_ms);
  CREATE INDEX token_user ON token (username);

  -- digest: of the revision that an entry records.
  CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    user TEXT,
    address TEXT,
    protocol TEXT,
    request_id TEXT,
    subject TEXT,
    detail TEXT,
    count INTEGER NOT NULL,
    hash TEXT NOT NULL,
    token_id TEXT,
    token_name TEXT,
    digest TEXT
  ) STRICT;
  CREATE INDEX audit_kind ON audit (kind);
  CREATE INDEX audit_user ON audit (user);
  CREATE INDEX audit_time ON audit (time_ms);
  -- Seq and hash of the newest entry, so that removed entries at the end are noticed.
  CREATE TABLE audit_head (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL
  ) STRICT;

  -- The times of failed logins, by what they are counted by.
  CREATE TABLE failed_login (
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX failed_login_key ON failed_login (key);
  CREATE INDEX failed_login_time ON failed_login (at_ms);

  -- Whether the flows are to run. Without a row, they are.
  CREATE TABLE desired_state (
    seq INTEGER PRIMARY KEY,
    started INTEGER NOT NULL,
    changed_by TEXT,
    changed_at_ms INTEGER NOT NULL
  ) STRICT;

  -- What Node-RED's tools keep: the library, and settings of users.
  CREATE TABLE document (
    seq INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    details TEXT NOT NULL,
    content TEXT NOT NULL,
    changed_by TEXT,
    changed_at_ms INTEGER NOT NULL
  ) STRICT;

  CREATE TABLE proposal (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    base TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    proposed_by TEXT,
    token_id TEXT,
    token_name TEXT,
    client_address TEXT,
    protocol TEXT,
    request_id TEXT,
    deployment_type TEXT NOT NULL,
    message TEXT,
    wait_ms INTEGER,
    undo_on_failure INTEGER NOT NULL,
    max_errors INTEGER NOT NULL,
    changes TEXT NOT NULL,
    digest TEXT NOT NULL,
    node_count INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    closed TEXT,
    closed_at_ms INTEGER,
    closed_by TEXT,
    closed_token_id TEXT,
    closed_token_name TEXT,
    reason TEXT,
    rev TEXT,
    modules TEXT NOT NULL DEFAULT '[]'
  ) STRICT;
  CREATE TABLE proposal_content (
    seq INTEGER PRIMARY KEY,
    flows BLOB NOT NULL,
    credentials BLOB NOT NULL
  ) STRICT;

  -- Values that flows keep between messages.
  CREATE TABLE context_value (
    seq INTEGER PRIMARY KEY,
    store TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (store, scope, key)
  ) STRICT;

  -- The modules that flows need, in sets that revisions share, and uploaded packages by the hash in these.
  CREATE TABLE module_set (
    seq INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    modules TEXT NOT NULL
  ) STRICT;
  CREATE TABLE module_tarball (
    seq INTEGER PRIMARY KEY,
    integrity TEXT NOT NULL UNIQUE,
    content BLOB NOT NULL,
    stored_at_ms INTEGER NOT NULL
  ) STRICT;

  -- What nodes store themselves, encrypted: their credentials, and settings of their modules.
  CREATE TABLE node_credential (
    seq INTEGER PRIMARY KEY,
    node_id TEXT NOT NULL UNIQUE,
    type TEXT,
    base_seq INTEGER NOT NULL,
    credentials BLOB NOT NULL,
    written_at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE node_setting (
    seq INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    value BLOB NOT NULL
  ) STRICT;

  -- The key of all that is encrypted.
  CREATE TABLE credential_key (
    seq INTEGER PRIMARY KEY CHECK (seq = 1),
    key_id TEXT NOT NULL,
    previous TEXT NOT NULL,
    known TEXT NOT NULL
  ) STRICT;

  PRAGMA application_id = ${applicationId};
`;

/** Each produces the next version from the previous one. Released migrations must not change. */
const released: readonly string[] = [];
const schemaVersion = firstVersion + released.length;

/** Creates the schema in an empty database, or migrates an older one. `migrations`: this version's. */
export function migrate(db: DatabaseSync, path: string, migrations = released): void {
  const newest = firstVersion + migrations.length;
  if (readVersion(db, path, newest) === newest) {
    return;
  }
  inSyncTransaction(db, () => {
    // Reads the version again: another process may have migrated the database in the meantime.
    const version = readVersion(db, path, newest);
    if (version === 0) {
      db.exec(tables);
    }
    for (const migration of migrations.slice(Math.max(0, version - firstVersion))) {
      db.exec(migration);
    }
    setVersion(db, newest);
  });
}

/** Writes the schema version, which is a durable write that does not change the database. */
export function setVersion(db: DatabaseSync, version = schemaVersion): void {
  db.exec(`PRAGMA user_version = ${version}`);
}

/**
 * Returns the version of the schema; 0 if the database is empty. Throws if it is not a Flowgate database, or if its schema is newer, or
 * older than the first one.
 */
export function readVersion(db: DatabaseSync, path: string, newest = schemaVersion): number {
  const row = db
    .prepare(
      `SELECT (SELECT application_id FROM pragma_application_id) AS id, (SELECT user_version FROM pragma_user_version) AS version,
              (SELECT count(*) FROM sqlite_schema) AS objects`,
    )
    .get();
  if (row?.["id"] === 0 && row["version"] === 0 && row["objects"] === 0) {
    return 0;
  }
  if (row?.["id"] !== applicationId) {
    throw new Error(`${path} is the database of another program: use another file.`);
  }
  const version = Number(row["version"]);
  if (version > newest) {
    throw new Error(
      `${path} was created by a newer version of Flowgate (schema version ${version}; this one supports ${newest}): use that version.`,
    );
  }
  if (version < firstVersion) {
    throw new Error(
      `${path} was created by an unreleased version of Flowgate (schema version ${version}; this one supports ${firstVersion} and later): export the flows with that version, and deploy them to a new store.`,
    );
  }
  return version;
}

/** Throws if the database is empty, does not belong to Flowgate, or has a newer schema. */
export function assertFlowgateDatabase(db: DatabaseSync, path: string): void {
  if (readVersion(db, path) === 0) {
    throw new Error(`${path} is an empty database: it contains no flows.`);
  }
}

/** Throws if the schema has an older version. */
export function assertCurrentSchema(db: DatabaseSync, path: string): void {
  if (readVersion(db, path) < schemaVersion) {
    throw new Error(
      `${path} has the schema of an older version: start the service with it once. If it is a backup, restore it to a new data directory first.`,
    );
  }
}
