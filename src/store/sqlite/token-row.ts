import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { ListedToken, StoredToken, TokenSelector } from "../store.ts";

type TokenRow = {
  hash: Uint8Array;
  id: string;
  name: string | null;
  username: string;
  password_fingerprint: Uint8Array;
  client_id: string;
  scope: string;
  created_at_ms: number | null;
  expires_at_ms: number;
};

export const tokenColumns =
  "hash, id, name, username, password_fingerprint, client_id, scope, created_at_ms, expires_at_ms";

export function insertToken(db: DatabaseSync, token: StoredToken): void {
  db.prepare(`INSERT INTO token (${tokenColumns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`).run(
    token.hash,
    token.id,
    token.name ?? null,
    token.username,
    token.passwordFingerprint,
    token.clientId,
    token.scope,
    token.createdAtMs ?? null,
    token.expiresAtMs,
  );
}

/** Deletes the selected tokens, and returns their hashes. */
export function deleteTokens(db: DatabaseSync, selector: TokenSelector): Uint8Array[] {
  // The properties of a selector are named like the columns.
  const [column, value]: [string, SQLInputValue] =
    selector === "all" ? ["1", 1] : (Object.entries(selector)[0] as [string, SQLInputValue]);
  const rows = db.prepare(`DELETE FROM token WHERE ${column} = ? RETURNING hash`).all(value);
  return rows.map(({ hash }) => hash as Uint8Array);
}

export function toToken(row: unknown): StoredToken {
  const token = row as TokenRow;
  return {
    id: token.id,
    hash: token.hash,
    name: token.name ?? undefined,
    username: token.username,
    passwordFingerprint: token.password_fingerprint,
    clientId: token.client_id,
    scope: token.scope,
    createdAtMs: token.created_at_ms ?? undefined,
    expiresAtMs: token.expires_at_ms,
  };
}

export function toListedToken(row: unknown): ListedToken {
  const { last_used_at_ms } = row as { last_used_at_ms: number | null };
  return { ...toToken(row), lastUsedAtMs: last_used_at_ms ?? undefined };
}
