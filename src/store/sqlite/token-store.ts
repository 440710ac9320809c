import type { DatabaseSync } from "node:sqlite";
import { createListeners } from "../../listeners.ts";
import type { TokenStore } from "../store.ts";

export function createTokenStore(db: DatabaseSync): TokenStore {
  const insert = db.prepare(`INSERT INTO token (${columns}) VALUES (?, ?, ?, ?, ?, ?)`);
  const find = db.prepare(`SELECT ${columns} FROM token WHERE hash = ?`);
  const remove = db.prepare("DELETE FROM token WHERE hash = ?");
  const removeExpired = db.prepare("DELETE FROM token WHERE expires_at_ms <= ?");
  const revoked = createListeners<Uint8Array | undefined>();

  return {
    async insert(token) {
      insert.run(token.hash, token.username, token.passwordFingerprint, token.clientId, token.scope, token.expiresAtMs);
    },

    async find(hash) {
      const row = find.get(hash) as TokenRow | undefined;
      return (
        row && {
          hash: row.hash,
          username: row.username,
          passwordFingerprint: row.password_fingerprint,
          clientId: row.client_id,
          scope: row.scope,
          expiresAtMs: row.expires_at_ms,
        }
      );
    },

    async remove(hash) {
      remove.run(hash);
      revoked.notify(hash);
    },

    async removeExpired(nowMs) {
      removeExpired.run(nowMs);
    },

    onRevoked: (listener) => revoked.add(listener),
  };
}

const columns = "hash, username, password_fingerprint, client_id, scope, expires_at_ms";

type TokenRow = {
  hash: Uint8Array;
  username: string;
  password_fingerprint: Uint8Array;
  client_id: string;
  scope: string;
  expires_at_ms: number;
};
