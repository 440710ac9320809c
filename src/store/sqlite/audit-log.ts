import type { DatabaseSync } from "node:sqlite";
import { type AuditRow, toAuditRow } from "../sql/audit-log.ts";
import { emptyHead, formatHead, parseHead, systemOrigin } from "../audit-store.ts";
import type { AuditHead, AuditRecord } from "../audit-store.ts";

/** Appends an entry to the audit log. Must be called in a transaction that excludes other writers. */
export function appendAudit(db: DatabaseSync, record: AuditRecord): void {
  const { hash: previousHash, seq } = readHead(db);
  const row = toAuditRow({ hash: previousHash, seq: Math.max(seq, newestSeq(db)) }, record, Date.now());
  const names = Object.keys(row);
  db.prepare(`INSERT INTO audit (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`).run(row);
  db.prepare("INSERT OR REPLACE INTO audit_head (id, seq, hash) VALUES (0, ?, ?)").run(row.seq, row.hash);
}

/** Removes entries as `AuditStore.prune` does. Must be called in a transaction that excludes other writers. */
export function pruneAudit(db: DatabaseSync, maxAgeMs: number): void {
  // Up to the first entry that is to be kept, since the clock may have been set back between entries.
  const kept = db.prepare("SELECT min(seq) AS seq FROM audit WHERE time_ms >= ?").get(Date.now() - maxAgeMs)?.["seq"];
  const firstKept = kept === null ? newestSeq(db) : Number(kept);
  const last = db.prepare("SELECT seq, hash FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT 1").get(firstKept);
  if (last === undefined) {
    return;
  }
  const subject = formatHead(last as AuditHead);
  const { changes } = db.prepare("DELETE FROM audit WHERE seq < ?").run(firstKept);
  appendAudit(db, { kind: "audit_pruned", origin: systemOrigin, subject, count: Number(changes) });
}

/** The newest entry as it was recorded separately, without which removed entries at the end would not be noticed. */
export function readHead(db: DatabaseSync): AuditHead {
  return (db.prepare("SELECT seq, hash FROM audit_head").get() as AuditHead | undefined) ?? emptyHead;
}

/** The entry after which the log starts, according to the newest entry about removed ones. */
export function readPruned(db: DatabaseSync): AuditHead {
  const entry = db.prepare("SELECT subject FROM audit WHERE kind = 'audit_pruned' ORDER BY seq DESC LIMIT 1").get() as
    | Pick<AuditRow, "subject">
    | undefined;
  return parseHead(entry?.subject ?? "") ?? emptyHead;
}

function newestSeq(db: DatabaseSync): number {
  return Number(db.prepare("SELECT max(seq) AS seq FROM audit").get()?.["seq"] ?? 0);
}
