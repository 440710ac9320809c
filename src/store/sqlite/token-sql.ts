import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { toTokenRow } from "../token-row.ts";
import type { NamedTokenCounts, StoredToken, TokenSelector } from "../token-store.ts";

export function insertToken(db: DatabaseSync, token: StoredToken): void {
  const row = toTokenRow(token);
  const names = Object.keys(row);
  db.prepare(`INSERT INTO token (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`).run(row);
}

export function countNamedTokens(db: DatabaseSync, username: string, nowMs: number): NamedTokenCounts {
  return db
    .prepare(
      `SELECT count(*) AS total, count(*) FILTER (WHERE username = ?) AS ofUser FROM token
       WHERE name IS NOT NULL AND expires_at_ms > ?`,
    )
    .get(username, nowMs) as NamedTokenCounts;
}

/** Deletes the selected tokens, and returns their hashes. */
export function deleteTokens(db: DatabaseSync, selector: TokenSelector): Uint8Array[] {
  // The properties of a selector are named like the columns.
  const [column, value]: [string, SQLInputValue] =
    selector === "all" ? ["1", 1] : (Object.entries(selector)[0] as [string, SQLInputValue]);
  const rows = db.prepare(`DELETE FROM token WHERE ${column} = ? RETURNING hash`).all(value);
  return rows.map(({ hash }) => hash as Uint8Array);
}
