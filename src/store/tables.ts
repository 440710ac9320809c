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
