import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { AuditRecord } from "../audit-store.ts";
import {
  assertBelow,
  type NamedTokenLimits,
  type StoredToken,
  type TokenSelector,
  type NamedTokenCounts,
} from "../token-store.ts";
import { appendAudit } from "./audit-log.ts";
import { inTransaction } from "./transaction.ts";
import { toTokenRow } from "../sql/tokens.ts";

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
