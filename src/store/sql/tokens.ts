import type { ListedToken, StoredToken } from "../token-store.ts";

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

export function toTokenRow(token: StoredToken): TokenRow {
  return {
    hash: token.hash,
    id: token.id,
    name: token.name ?? null,
    username: token.username,
    password_fingerprint: token.passwordFingerprint,
    client_id: token.clientId,
    scope: token.scope,
    created_at_ms: token.createdAtMs ?? null,
    expires_at_ms: token.expiresAtMs,
  };
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
