import type { DatabaseSync } from "node:sqlite";
import type { Listeners } from "../../base/listeners.ts";
import { toListedToken, tokenColumns, toToken } from "../sql/tokens.ts";
import type { TokenStore } from "../token-store.ts";
import { createStatement } from "./database.ts";
import type { Writer } from "./writer.ts";

/** `revoked` gets the hash of each removed token. */
export function createTokenStore(
  db: DatabaseSync,
  writer: Writer,
  revoked: Listeners<Uint8Array | undefined>,
): TokenStore {
  const find = createStatement(db, `SELECT ${tokenColumns} FROM token WHERE hash = ?`);
  const selectById = createStatement(db, `SELECT ${tokenColumns} FROM token WHERE id = ?`);
  const selectPage = createStatement(
    db,
    `SELECT seq, ${tokenColumns}, last_used_at_ms FROM token
     WHERE seq < :before AND expires_at_ms > :nowMs AND (:username IS NULL OR username = :username)
     ORDER BY seq DESC LIMIT :limit`,
  );

  return {
    async insert(token, entry, limits) {
      await writer.insertToken({ token, entry, limits });
    },

    async find(hash) {
      const row = find.get(hash);
      return row && toToken(row);
    },

    async get(id) {
      const row = selectById.get(id);
      return row && toToken(row);
    },

    async list({ limit, nowMs, username = null, before = Number.MAX_SAFE_INTEGER }) {
      const rows = selectPage.all({ before, nowMs, username, limit: limit + 1 });
      const page = rows.slice(0, limit);
      return { tokens: page.map(toListedToken), next: rows.length > limit ? Number(page.at(-1)?.["seq"]) : undefined };
    },

    async remove(selector, entry) {
      const hashes = await writer.removeTokens({ selector, entry });
      for (const hash of hashes) {
        revoked.notify(hash);
      }
      return hashes.length;
    },

    async removeExpired(nowMs) {
      await writer.removeExpiredTokens(nowMs);
    },

    async recordUses(uses) {
      await writer.recordTokenUses(uses);
    },

    onRevoked: (listener) => revoked.add(listener),
    isCurrent: () => true,
  };
}
