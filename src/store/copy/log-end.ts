import { emptyHead, parseHead } from "../audit-chain.ts";
import { type AuditRow, toAuditRow } from "../audit-row.ts";
import type { AuditHead, AuditRecord } from "../audit-store.ts";
import type { Row } from "../tables.ts";

/** Continues an audit log that is copied. */
export interface LogEnd {
  /** Must be called with all entries. */
  add(rows: readonly Row[]): void;
  /** The entry after which the log starts. */
  pruned(): AuditHead;
  /** Returns the entry that follows, if one is given, and the newest entry. `recorded` is the newest one of the source. */
  end(
    recorded: AuditHead,
    entry: AuditRecord | undefined,
  ): { readonly row: AuditRow | undefined; readonly head: AuditHead };
}

export function createLogEnd(): LogEnd {
  let pruned = emptyHead;
  let lastSeq = 0;
  return {
    add(rows) {
      for (const { kind, subject, seq } of rows as readonly AuditRow[]) {
        pruned = (kind === "audit_pruned" ? parseHead(subject ?? "") : undefined) ?? pruned;
        lastSeq = seq;
      }
    },
    pruned: () => pruned,
    end(recorded, entry) {
      if (entry === undefined) {
        return { row: undefined, head: recorded };
      }
      // The numbers differ only if the log was changed, which the hash of the new entry must not hide.
      const row = toAuditRow({ seq: Math.max(recorded.seq, lastSeq), hash: recorded.hash }, entry, Date.now());
      return { row, head: row };
    },
  };
}
