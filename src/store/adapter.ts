import type { AuditHead, AuditVerification } from "./audit-store.ts";
import type { CredentialKey, CredentialKeys } from "./credential-keys.ts";
import type { Rotation, RotationOptions } from "./rotation.ts";
import type { Store } from "./store.ts";

/** A kind of store. `location` is the part of the store's URL after the scheme. */
export interface StoreAdapter {
  /**
   * `keys` encrypt credentials. The caller must have locked `dataDir`. Rejects if the stored credentials were encrypted with another
   * key.
   */
  open(location: string, options: { readonly keys: CredentialKeys; readonly dataDir: string }): Promise<Store>;
  /**
   * Copies a consistent snapshot of all data to a new file, a SQLite database. A service may use the store at the same time.
   */
  backup(location: string, file: string, files: BackupFiles): Promise<void>;
  /**
   * Replaces the data by a backup, without its tokens, since some may have been revoked in the meantime. No service may use
   * the store. Resolves with the path under which the previous data is kept, if there was any. An adapter that can't keep
   * it rejects unless the store is new.
   */
  restore(file: string, location: string, options: RestoreOptions): Promise<string | undefined>;
  /** Rejects if a service uses the store, and prevents changes of its data until the reader is disposed. */
  openReader(location: string): Promise<TableReader>;
  /**
   * Rejects if a service uses the store, or if the store has data: a token, an audit entry, or a revision other than the first
   * one. Services can't use it until the writer is disposed.
   */
  openWriter(location: string): Promise<TableWriter>;
  /** Checks the audit log, as `AuditStore.verify`. A service may use the store at the same time. */
  verifyAudit(location: string, expected?: AuditHead): Promise<AuditVerification>;
  /** Encrypts everything with another key, see `Rotation`. Services may use the store at the same time. */
  rotate(location: string, options: RotationOptions): Promise<Rotation>;
}

export type RestoreOptions = {
  /** As `CopyOptions.keys`. */
  readonly readKeys: () => Promise<readonly CredentialKey[]>;
  readonly files: BackupFiles;
};

/** The files of backups are SQLite databases for all kinds of stores, so that each kind can restore another's. */
export interface BackupFiles {
  /** Reads a backup. */
  openReader(file: string): Promise<TableReader>;
  /** Creates a backup, which appears as `file` when it is complete. */
  openWriter(file: string): Promise<TableWriter>;
}

/**
 * The tables that make up a store, in the order in which they are copied. They have the same columns in all adapters. Adapters
 * have further tables, whose content matters to running services only.
 */
export const tableNames = [
  "module_set",
  "module_tarball",
  "revision",
  "revision_content",
  "proposal",
  "proposal_content",
  "idempotency_key",
  "desired_state",
  "document",
  "context_value",
  "node_credential",
  "node_setting",
  "token",
  "audit",
] as const;

export type TableName = (typeof tableNames)[number];

export type Row = Readonly<Record<string, string | number | Uint8Array | null>>;

/** The number of rows that are in memory at once. The flows of a revision and a tarball can have megabytes. */
export function batchSizeOf(table: TableName): number {
  switch (table) {
    case "module_tarball":
      return 1;
    case "document":
    case "revision_content":
    case "proposal_content":
      return 4;
    case "context_value":
    case "node_credential":
    case "node_setting":
      return 50;
    default:
      return 500;
  }
}

export interface TableReader extends AsyncDisposable {
  count(table: TableName): Promise<number>;
  /** Reads all rows, in batches. Their order does not depend on the adapter. */
  read(table: TableName): AsyncIterable<readonly Row[]>;
  /** The newest audit entry, as it was recorded apart from the log. */
  readHead(): Promise<AuditHead>;
}

/** Fills a new store in one transaction, and reads it back. Disposing without `commit` leaves the store unchanged. */
export interface TableWriter extends TableReader {
  /** `rows` is not empty. */
  write(table: TableName, rows: readonly Row[]): Promise<void>;
  /** Records the newest audit entry apart from the log. */
  writeHead(head: AuditHead): Promise<void>;
  /** The data is durable when the promise resolves. */
  commit(): Promise<void>;
}
