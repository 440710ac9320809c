import type { DatabaseSync } from "node:sqlite";
import type { AuditRecord, StoredToken, TokenSelector } from "../store.ts";
import { appendAudit, pruneAudit } from "./audit-log.ts";
import { deleteTokens, insertToken } from "./token-row.ts";
import { inTransaction } from "./transaction.ts";

/** A write other than a commit. Each is one transaction. */
export type Write =
  | { readonly write: "appendAudit"; readonly records: readonly AuditRecord[] }
  | { readonly write: "pruneAudit"; readonly beforeMs: number }
  | { readonly write: "insertToken"; readonly token: StoredToken; readonly entry: AuditRecord }
  | { readonly write: "removeTokens"; readonly selector: TokenSelector; readonly entry: AuditRecord }
  | { readonly write: "removeExpiredTokens"; readonly nowMs: number }
  | { readonly write: "recordTokenUses"; readonly uses: ReadonlyMap<string, number> };

/** The hashes of removed tokens; otherwise empty. */
export type WriteReply = readonly Uint8Array[];

/** Runs writes on a thread with a separate connection. */
export type Writer = { call(write: Write): Promise<WriteReply> };

export function runWrite(db: DatabaseSync, write: Write): WriteReply {
  return inTransaction(db, () => apply(db, write) ?? []);
}

function apply(db: DatabaseSync, write: Write): WriteReply | undefined {
  switch (write.write) {
    case "appendAudit":
      for (const record of write.records) {
        appendAudit(db, record);
      }
      return undefined;
    case "pruneAudit":
      pruneAudit(db, write.beforeMs);
      return undefined;
    case "insertToken":
      insertToken(db, write.token);
      appendAudit(db, write.entry);
      return undefined;
    case "removeTokens": {
      const hashes = deleteTokens(db, write.selector);
      if (hashes.length > 0) {
        appendAudit(db, { ...write.entry, count: hashes.length });
      }
      return hashes;
    }
    case "removeExpiredTokens":
      db.prepare("DELETE FROM token WHERE expires_at_ms <= ?").run(write.nowMs);
      return undefined;
    case "recordTokenUses": {
      const update = db.prepare("UPDATE token SET last_used_at_ms = ? WHERE id = ?");
      for (const [id, atMs] of write.uses) {
        update.run(atMs, id);
      }
      return undefined;
    }
  }
}
