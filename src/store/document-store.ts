import type { AuditRecord } from "./audit-store.ts";

/** A text that tools keep in the store, such as an entry of Node-RED's library, by its path. */
export type StoredDocument = {
  /** Parts separated by slashes. */
  readonly name: string;
  /** Properties that lists have too, as JSON. */
  readonly details: string;
  readonly content: string;
  /** The user who wrote it; undefined: the request was not authenticated. */
  readonly by: string | undefined;
};

/** The documents of all users together. */
export const documentLimits = { count: 10_000, totalBytes: 32 * 1024 * 1024 } as const;

/** The bytes of the details of one document, and the entries of a page. */
export const maxDetailsBytes = 64 * 1024;
export const documentsOfPage = 16;

/** Stores the documents of tools. Each change is durable before its promise resolves. */
export interface DocumentStore {
  /** Resolves with undefined if there is none. */
  find(name: string): Promise<StoredDocument | undefined>;
  /** The names of the folders that are directly in a folder, which is a name with a slash at its end. */
  listFolders(folder: string): Promise<readonly string[]>;
  /** The first `documentsOfPage` documents that are directly in a folder, by name, after the one with the name `after`. */
  list(folder: string, after?: string): Promise<readonly Omit<StoredDocument, "content">[]>;
  /**
   * Adds or replaces a document, with an audit entry in the same transaction. Rejects with `limit_exceeded`, and changes nothing, if
   * there would be more than `documentLimits` permits.
   */
  put(document: StoredDocument, entry?: AuditRecord): Promise<void>;
}
