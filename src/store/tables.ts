import type { AuditHead } from "./audit-store.ts";

/**
 * The tables that make up a store, in the order in which they are copied. They have the same columns in all adapters. Adapters
 * have further tables, whose content matters to running services only.
 */
export const tableNames = ["revision", "revision_content", "idempotency_key", "token", "audit"] as const;

export type TableName = (typeof tableNames)[number];

export type Row = Readonly<Record<string, string | number | Uint8Array | null>>;

/** The number of rows that are in memory at once. The flows of a revision can have megabytes. */
export function batchSizeOf(table: TableName): number {
  return table === "revision_content" ? 4 : 500;
}

/** Reads the data of a store, as of one point in time. */
export interface TableReader extends AsyncDisposable {
  count(table: TableName): Promise<number>;
  /** Reads all rows, in batches. Their order does not depend on the adapter. */
  read(table: TableName): AsyncIterable<readonly Row[]>;
  /** The newest audit entry, as it was recorded apart from the log. */
  readHead(): Promise<AuditHead>;
}

/** Fills a new store in one transaction, and reads what was written. Disposing without `commit` leaves the store as it was. */
export interface TableWriter extends TableReader {
  /** `rows` is not empty. */
  write(table: TableName, rows: readonly Row[]): Promise<void>;
  /** Records the newest audit entry apart from the log. */
  writeHead(head: AuditHead): Promise<void>;
  /** The data is durable when the promise resolves. */
  commit(): Promise<void>;
}
