import type { DatabaseSync } from "node:sqlite";
import type { AuditRecord } from "../audit-store.ts";
import { assertBelow, type NamedTokenLimits, type StoredToken, type TokenSelector } from "../token-store.ts";
import { appendAudit } from "./audit-log.ts";
import { countNamedTokens, deleteTokens, insertToken } from "./token-sql.ts";
import { inTransaction } from "./transaction.ts";

/** The operations that write tokens. */
export type TokenWrites = {
  insertToken(call: {
    readonly token: StoredToken;
    readonly entry: AuditRecord;
    readonly limits: NamedTokenLimits | undefined;
  }): void;
  /** Returns the hashes of the removed tokens. */
  removeTokens(call: { readonly selector: TokenSelector; readonly entry: AuditRecord }): readonly Uint8Array[];
  removeExpiredTokens(nowMs: number): void;
  /** The time of the last use, by the id of the token. */
  recordTokenUses(uses: ReadonlyMap<string, number>): void;
};

export function tokenWrites(db: DatabaseSync): TokenWrites {
  return {
    insertToken: ({ token, entry, limits }) =>
      inTransaction(db, () => {
        if (limits !== undefined) {
          assertBelow(countNamedTokens(db, token.username, limits.nowMs), limits);
        }
        insertToken(db, token);
        appendAudit(db, entry);
      }),

    removeTokens: ({ selector, entry }) =>
      inTransaction(db, () => {
        const hashes = deleteTokens(db, selector);
        if (hashes.length > 0) {
          appendAudit(db, { ...entry, count: hashes.length });
        }
        return hashes;
      }),

    removeExpiredTokens: (nowMs) =>
      inTransaction(db, () => {
        db.prepare("DELETE FROM token WHERE expires_at_ms <= ?").run(nowMs);
      }),

    recordTokenUses: (uses) =>
      inTransaction(db, () => {
        const update = db.prepare("UPDATE token SET last_used_at_ms = ? WHERE id = ?");
        for (const [id, atMs] of uses) {
          update.run(atMs, id);
        }
      }),
  };
}
