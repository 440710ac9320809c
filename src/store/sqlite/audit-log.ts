import type { DatabaseSync } from "node:sqlite";
import { emptyHead, formatHead, hashEntry, parseHead, systemOrigin } from "../audit-chain.ts";
import type { AuditEntry, AuditHead, AuditKind, AuditRecord } from "../store.ts";

type AuditRow = {
  seq: number;
  time_ms: number;
  kind: AuditKind;
  user: string | null;
  address: string | null;
  protocol: string | null;
  request_id: string | null;
  subject: string | null;
  detail: string | null;
  count: number;
  hash: string;
};

/** Appends an entry to the audit log. Must be called in a transaction that excludes other writers. */
export function appendAudit(db: DatabaseSync, { kind, origin, subject, detail, count = 1 }: AuditRecord): void {
  const previous = readHead(db);
  const entry: Omit<AuditEntry, "hash"> = {
    seq: Math.max(previous.seq, newestSeq(db)) + 1,
    timeMs: Date.now(),
    kind,
    origin: {
      by: toText(origin.by),
      address: toText(origin.address),
      protocol: toText(origin.protocol),
      requestId: toText(origin.requestId),
    },
    subject: toText(subject),
    detail: toText(detail),
    count,
  };
  const hash = hashEntry(previous.hash, entry);
  db.prepare(
    `INSERT INTO audit (seq, time_ms, kind, user, address, protocol, request_id, subject, detail, count, hash)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    entry.seq,
    entry.timeMs,
    kind,
    entry.origin.by ?? null,
    entry.origin.address ?? null,
    entry.origin.protocol ?? null,
    entry.origin.requestId ?? null,
    entry.subject ?? null,
    entry.detail ?? null,
    count,
    hash,
  );
  db.prepare("INSERT OR REPLACE INTO audit_head (id, seq, hash) VALUES (0, ?, ?)").run(entry.seq, hash);
}

/** Removes entries as `AuditStore.prune` does. Must be called in a transaction that excludes other writers. */
export function pruneAudit(db: DatabaseSync, beforeMs: number): void {
  // Up to the first entry that is to be kept, since the clock may have been set back between entries.
  const kept = db.prepare("SELECT min(seq) AS seq FROM audit WHERE time_ms >= ?").get(beforeMs)?.["seq"];
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

export function toEntry(row: unknown): AuditEntry {
  const { seq, time_ms, kind, user, address, protocol, request_id, subject, detail, count, hash } = row as AuditRow;
  return {
    seq,
    timeMs: time_ms,
    kind,
    origin: {
      by: user ?? undefined,
      address: address ?? undefined,
      protocol: protocol ?? undefined,
      requestId: request_id ?? undefined,
    },
    subject: subject ?? undefined,
    detail: detail ?? undefined,
    count,
    hash,
  };
}

function newestSeq(db: DatabaseSync): number {
  return Number(db.prepare("SELECT max(seq) AS seq FROM audit").get()?.["seq"] ?? 0);
}

/** SQLite stores text as UTF-8, which can't represent lone surrogates. */
function toText(text: string | undefined): string | undefined {
  return text?.toWellFormed();
}
