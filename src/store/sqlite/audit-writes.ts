import type { DatabaseSync } from "node:sqlite";
import type { AuditRecord } from "../audit-store.ts";
import { appendAudit, pruneAudit } from "./audit-log.ts";
import { inTransaction } from "./transaction.ts";

/** The operations that write audit entries only. */
export type AuditWrites = {
  appendAudit(records: readonly AuditRecord[]): void;
  pruneAudit(maxAgeMs: number): void;
};

export function auditWrites(db: DatabaseSync): AuditWrites {
  return {
    appendAudit: (records) =>
      inTransaction(db, () => {
        for (const record of records) {
          appendAudit(db, record);
        }
      }),
    pruneAudit: (maxAgeMs) => inTransaction(db, () => pruneAudit(db, maxAgeMs)),
  };
}
