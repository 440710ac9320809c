import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { toTokenRow } from "../token-row.ts";
import type { StoredToken, TokenSelector } from "../token-store.ts";

export function insertToken(db: DatabaseSync, token: StoredToken): void {
  const row = toTokenRow(token);
  const names = Object.keys(row);
  db.prepare(`INSERT INTO token (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`).run(row);
}

/** Deletes the selected tokens, and returns their hashes. */
export function deleteTokens(db: DatabaseSync, selector: TokenSelector): Uint8Array[] {
  // The properties of a selector are named like the columns.
  const [column, value]: [string, SQLInputValue] =
    selector === "all" ? ["1", 1] : (Object.entries(selector)[0] as [string, SQLInputValue]);
  const rows = db.prepare(`DELETE FROM token WHERE ${column} = ? RETURNING hash`).all(value);
  return rows.map(({ hash }) => hash as Uint8Array);
}
