import type { AuditRecord } from "./audit-store.ts";

/** A text that tools keep in the store, such as an entry of Node-RED's library, by its path. */
export type StoredDocument = {
  /** Parts separated by slashes. */
  readonly name: string;
  /** Properties that lists have too, as JSON. */
  readonly details: string;
  readonly content: string;
  /** Who has written it; undefined: the request was not authenticated. */
  readonly by: string | undefined;
};

/** The documents of all users together. */
export const documentLimits = { count: 10_000, totalBytes: 32 * 1024 * 1024 } as const;

/** Stores the documents of tools. Each change is durable before its promise resolves. */
export interface DocumentStore {
  /** Resolves with undefined if there is none. */
  find(name: string): Promise<StoredDocument | undefined>;
  /** Those whose names begin with the prefix, by name. */
  list(prefix: string): Promise<readonly Omit<StoredDocument, "content">[]>;
  /**
   * Adds or replaces a document, with an audit entry in the same transaction. Rejects with `limit_exceeded`, and changes nothing, if
   * there would be more than `documentLimits` permits.
   */
  put(document: StoredDocument, entry?: AuditRecord): Promise<void>;
}
