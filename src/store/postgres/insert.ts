import { toPortable } from "../sql/query.ts";
import type { Query } from "./database.ts";

/** Inserts a row, whose properties are named like the columns. */
export async function insert(query: Query, table: string, row: object): Promise<void> {
  await insertRows(query, table, [row]);
}

/** Inserts rows with the same properties, at least one. */
export async function insertRows(query: Query, table: string, rows: readonly object[]): Promise<void> {
  const names = Object.keys(rows[0] ?? {});
  const places = rows.map(
    (_, row) => `(${names.map((_, column) => `$${row * names.length + column + 1}`).join(", ")})`,
  );
  await query(
    `INSERT INTO flowgate.${table} (${names.map((name) => `"${name}"`).join(", ")}) VALUES ${places.join(", ")}`,
    rows.flatMap((row) => names.map((name) => toPortable((row as Record<string, unknown>)[name]))),
  );
}
