import type { DatabaseSync } from "node:sqlite";
import { zstdDecompressSync } from "node:zlib";
import { inSyncTransaction } from "./connection.ts";

// "FLGT"
const applicationId = 0x464c4754;

/** Each migration produces one schema version from the previous one. Released migrations must not change. */
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

  PRAGMA application_id = ${applicationId};
  `,
  // Drops existing tokens, because the password hashes under which they were issued are unknown.
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
  // Flows and credentials are in a table of their own, so that the history is read and changed without them. A parent may
  // be removed, hence it is no foreign key.
  `
  CREATE TABLE revision_content (
    seq INTEGER PRIMARY KEY,
    flows BLOB NOT NULL,
    credentials BLOB NOT NULL
  ) STRICT;
  INSERT INTO revision_content SELECT seq, flows, credentials FROM revision;

  CREATE TABLE revision_3 (
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
    probation_ms INTEGER
  ) STRICT;
  INSERT INTO revision_3
    (seq, rev, parent, committed_at_ms, deployed_by, deployment_type, cause, node_count, size_bytes)
    SELECT seq, rev, parent, committed_at_ms, deployed_by, deployment_type, 'deployment',
      json_array_length(document_text(flows)), octet_length(document_text(flows)) FROM revision;
  DROP TABLE revision;
  ALTER TABLE revision_3 RENAME TO revision;
  CREATE UNIQUE INDEX one_root ON revision (parent IS NULL) WHERE parent IS NULL;

  CREATE TABLE idempotency_key (
    user TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    rev TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (user, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_key_age ON idempotency_key (created_at_ms);

  CREATE TABLE named_token (
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
    last_used_at_ms INTEGER
  ) STRICT;
  INSERT INTO named_token (hash, id, username, password_fingerprint, client_id, scope, expires_at_ms)
    SELECT hash, lower(hex(randomblob(12))), username, password_fingerprint, client_id, scope, expires_at_ms FROM token;
  DROP TABLE token;
  ALTER TABLE named_token RENAME TO token;
  CREATE INDEX token_expiry ON token (expires_at_ms);
  CREATE INDEX token_user ON token (username);

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
    hash TEXT NOT NULL
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
  `,
  // The times of failed logins, by what they are counted by.
  `
  CREATE TABLE failed_login (
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX failed_login_key ON failed_login (key);
  CREATE INDEX failed_login_time ON failed_login (at_ms);
  `,
  // The token of a request besides its user, and the digest of the revision that an entry records.
  `
  ALTER TABLE revision ADD COLUMN token_id TEXT;
  ALTER TABLE revision ADD COLUMN token_name TEXT;
  ALTER TABLE audit ADD COLUMN token_id TEXT;
  ALTER TABLE audit ADD COLUMN token_name TEXT;
  ALTER TABLE audit ADD COLUMN digest TEXT;
  `,
  // Where credentials of removed nodes are.
  `
  ALTER TABLE revision_content ADD COLUMN kept TEXT NOT NULL DEFAULT '[]';
  `,
  // Whether the flows are to run. Without a row, they are.
  `
  CREATE TABLE desired_state (
    seq INTEGER PRIMARY KEY,
    started INTEGER NOT NULL,
    changed_by TEXT,
    changed_at_ms INTEGER NOT NULL
  ) STRICT;
  `,
  // How many errors the nodes of a revision may log at first.
  `
  ALTER TABLE revision ADD COLUMN error_limit_ms INTEGER;
  ALTER TABLE revision ADD COLUMN max_errors INTEGER;
  `,
  // What Node-RED's tools keep: the library, and settings of users.
  `
  CREATE TABLE document (
    seq INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    details TEXT NOT NULL,
    content TEXT NOT NULL,
    changed_by TEXT,
    changed_at_ms INTEGER NOT NULL
  ) STRICT;
  `,
  // Proposed deployments, and who has approved a revision.
  `
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
    rev TEXT
  ) STRICT;
  CREATE TABLE proposal_content (
    seq INTEGER PRIMARY KEY,
    flows BLOB NOT NULL,
    credentials BLOB NOT NULL
  ) STRICT;

  ALTER TABLE revision ADD COLUMN proposal_id TEXT;
  ALTER TABLE revision ADD COLUMN approved_by TEXT;
  ALTER TABLE revision ADD COLUMN approver_token_id TEXT;
  ALTER TABLE revision ADD COLUMN approver_token_name TEXT;
  `,
  // What a session of a browser keeps, encrypted.
  `
  ALTER TABLE token ADD COLUMN session BLOB;
  `,
  // Values that flows keep between messages.
  `
  CREATE TABLE context_value (
    seq INTEGER PRIMARY KEY,
    store TEXT NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (store, scope, key)
  ) STRICT;
  `,
  // The modules that flows need, in sets that revisions share, and uploaded packages by the hash in these.
  `
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
  ALTER TABLE revision ADD COLUMN module_set_seq INTEGER;
  CREATE INDEX revision_module_set ON revision (module_set_seq);
  `,
  // The modules that proposals name.
  `
  ALTER TABLE proposal ADD COLUMN modules TEXT NOT NULL DEFAULT '[]';
  `,
  // What nodes store themselves, encrypted: their credentials, and settings of their modules.
  `
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
  ALTER TABLE revision_content ADD COLUMN submitted TEXT NOT NULL DEFAULT '[]';
  `,
  // How often the process of the flows ended. A crash is a failure.
  `
  ALTER TABLE revision ADD COLUMN restarts INTEGER NOT NULL DEFAULT 0;
  UPDATE revision SET outcome = 'failed' WHERE outcome = 'crashed';
  `,
  // The key of all that is encrypted.
  `
  CREATE TABLE credential_key (
    seq INTEGER PRIMARY KEY CHECK (seq = 1),
    key_id TEXT NOT NULL,
    previous TEXT NOT NULL,
    known TEXT NOT NULL
  ) STRICT;
  `,
];
const schemaVersion = migrations.length;

/** Migrates an empty database or an older schema to the current version. */
export function migrate(db: DatabaseSync, path: string): void {
  if (readVersion(db, path) === schemaVersion) {
    return;
  }
  db.function("document_text", { deterministic: true }, (flows) => zstdDecompressSync(flows as Uint8Array).toString());
  inSyncTransaction(db, () => {
    // Reads the version again: another process may have migrated the database in the meantime.
    for (const migration of migrations.slice(readVersion(db, path))) {
      db.exec(migration);
    }
    setVersion(db);
  });
}

/** Writes the schema version, which is a durable write that does not change the database. */
export function setVersion(db: DatabaseSync): void {
  db.exec(`PRAGMA user_version = ${schemaVersion}`);
}

/** Returns the version of the schema; 0 if the database is empty. Throws if it is not a Flowgate database, or a newer one. */
export function readVersion(db: DatabaseSync, path: string): number {
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
  if (version > schemaVersion) {
    throw new Error(
      `${path} was created by a newer version of Flowgate (schema version ${version}; this one supports ${schemaVersion}): use that version.`,
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

/** Throws if the schema is that of an older version. */
export function assertCurrentSchema(db: DatabaseSync, path: string): void {
  if (readVersion(db, path) < schemaVersion) {
    throw new Error(
      `${path} has the schema of an older version: start the service with it once. If it is a backup, restore it to a new data directory first.`,
    );
  }
}
