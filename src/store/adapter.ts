import type { AuditHead, AuditVerification } from "./audit-store.ts";
import type { Store } from "./store.ts";
import type { TableReader, TableWriter } from "./tables.ts";

/** A kind of store. `location` is the part of the store's URL after the scheme. */
export interface StoreAdapter {
  /**
   * `key` encrypts credentials and has 32 bytes. The caller must have locked `dataDir`. Rejects if the stored credentials
   * were encrypted with another key.
   */
  open(location: string, options: { readonly key: Buffer; readonly dataDir: string }): Promise<Store>;
  /**
   * Copies a consistent snapshot of all data to a new file, a SQLite database. A service may use the store at the same time.
   */
  backup(location: string, file: string): Promise<void>;
  /**
   * Replaces the data by a backup, without its tokens, since some may have been revoked in the meantime. No service may use
   * the store. Resolves with the path under which the previous data is kept, if there was any. An adapter that can't keep
   * it rejects unless the store is new. `readKeys` is as `CopyOptions.keys`.
   */
  restore(file: string, location: string, readKeys: () => Promise<readonly Buffer[]>): Promise<string | undefined>;
  /** Rejects if a service uses the store, and prevents changes of its data until the reader is disposed. */
  openReader(location: string): Promise<TableReader>;
  /**
   * Rejects if a service uses the store, or if the store has data: a token, an audit entry, or a revision other than the first
   * one. Services can't use it until the writer is disposed.
   */
  openWriter(location: string): Promise<TableWriter>;
  /** Checks the audit log, as `AuditStore.verify`. A service may use the store at the same time. */
  verifyAudit(location: string, expected?: AuditHead): Promise<AuditVerification>;
}
