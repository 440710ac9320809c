/**
 * Runs one statement, and returns its rows. `withinMs` limits how long it waits for the server.
 *
 * The statements that the adapters share are written for PostgreSQL: tables have the schema `flowgate`, and placeholders are numbered.
 * SQLite's adapter translates them (`translate` in `sqlite/connection.ts`).
 */
export type Query = <Row extends object>(
  text: string,
  values?: readonly unknown[],
  withinMs?: number,
) => Promise<Row[]>;

/** The time of the store in milliseconds since the epoch: the database's, which its replicas share. */
export const nowMs = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/** Replaces U+0000, which PostgreSQL's text can't contain, so that stores can be copied. Other values are returned unchanged. */
export function toPortable<T>(value: T): T | string {
  return typeof value === "string" ? value.replaceAll("\0", "\ufffd") : value;
}

/** Inserts a row, whose properties are named like the columns. */
export async function insert(query: Query, table: string, row: object): Promise<void> {
  await insertRows(query, table, [row]);
}

export async function insertRows(query: Query, table: string, rows: readonly object[]): Promise<void> {
  const names = Object.keys(rows[0] ?? {});
  const places = rows.map((_, row) => `(${placeholders(names.length, row * names.length)})`);
  await query(
    `INSERT INTO flowgate.${table} (${names.map((name) => `"${name}"`).join(", ")}) VALUES ${places.join(", ")}`,
    rows.flatMap((row) => names.map((name) => (row as Record<string, unknown>)[name])),
  );
}

/** Numbered placeholders, separated by commas, after the first `before` ones. */
export function placeholders(count: number, before = 0): string {
  return Array.from({ length: count }, (_, index) => `$${before + index + 1}`).join(", ");
}

/** A comparison, such as `["seq <", 5]` or `["kind IN", ["a", "b"]]`. It is left out if the value is undefined. */
export type Comparison = readonly [comparison: string, value: unknown];

export function toCondition(comparisons: readonly Comparison[]): { condition: string; values: unknown[] } {
  const values: unknown[] = [];
  const terms = ["true"];
  for (const [comparison, value] of comparisons) {
    if (value !== undefined) {
      const operands: unknown[] = Array.isArray(value) ? value : [value];
      terms.push(`${comparison} (${placeholders(operands.length, values.length)})`);
      values.push(...operands);
    }
  }
  return { condition: terms.join(" AND "), values };
}

/** The first `limit` rows, of which one more was read to find out if there is a next page, and its cursor. */
export function toPage<Row extends { readonly seq: number }>(
  rows: readonly Row[],
  limit: number,
): { rows: readonly Row[]; next: number | undefined } {
  const page = rows.slice(0, limit);
  return { rows: page, next: rows.length > limit ? page.at(-1)?.seq : undefined };
}

/** Calls `remove`, which resolves with the number of removed rows, until these are fewer than `batchSize`. Resolves with the sum. */
export async function removeInBatches(batchSize: number, remove: () => Promise<number>): Promise<number> {
  let total = 0;
  let removed: number;
  do {
    removed = await remove();
    total += removed;
  } while (removed >= batchSize);
  return total;
}
