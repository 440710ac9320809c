import type { Query } from "./database.ts";

/** Inserts a row, whose properties are named like the columns. */
export async function insert(query: Query, table: string, row: object): Promise<void> {
  const names = Object.keys(row);
  await query(
    `INSERT INTO flowgate.${table} (${names.map((name) => `"${name}"`).join(", ")})
     VALUES (${names.map((_, index) => `$${index + 1}`).join(", ")})`,
    Object.values(row).map(toParameter),
  );
}

/** PostgreSQL's text can't contain U+0000. */
export function toParameter(value: unknown): unknown {
  return typeof value === "string" ? value.replaceAll("\0", "\ufffd") : value;
}
