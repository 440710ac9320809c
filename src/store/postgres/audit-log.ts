import { type AuditRow, toAuditRow } from "../sql/audit-log.ts";
import { emptyHead, formatHead, parseHead, systemOrigin } from "../audit-store.ts";
import type { AuditHead, AuditRecord } from "../audit-store.ts";
import { insert } from "./insert.ts";
import type { Query } from "./database.ts";

/**
 * Locks the audit log, and returns its newest entry. Must be the first statement of transactions that write audit entries:
 * they are committed one after another then, and can't wait for each other's locks.
 */
export async function lockAudit(query: Query): Promise<AuditHead> {
  const [head] = await query<AuditHead>("SELECT seq, hash FROM flowgate.audit_head FOR UPDATE");
  return head ?? emptyHead;
}

/** Appends entries after `head`, which `lockAudit` has returned. */
export async function appendAudit(query: Query, head: AuditHead, records: readonly AuditRecord[]): Promise<void> {
  const timeMs = await readTimeMs(query);
  let last: AuditHead = head;
  for (const record of records) {
    const row: AuditRow = toAuditRow(last, record, timeMs);
    await insert(query, "audit", row);
    last = row;
  }
  await query("UPDATE flowgate.audit_head SET seq = $1, hash = $2", [last.seq, last.hash]);
}

/** Removes entries as `AuditStore.prune` does. */
export async function pruneAudit(query: Query, maxAgeMs: number): Promise<void> {
  const head = await lockAudit(query);
  const oldestMs = (await readTimeMs(query)) - maxAgeMs;
  // Up to the first entry that is to be kept, since the clock may have been set back between entries.
  const [kept] = await query<{ seq: number | null }>("SELECT min(seq) AS seq FROM flowgate.audit WHERE time_ms >= $1", [
    oldestMs,
  ]);
  const firstKept = kept?.seq ?? head.seq;
  const [last] = await query<AuditHead>(
    "SELECT seq, hash FROM flowgate.audit WHERE seq < $1 ORDER BY seq DESC LIMIT 1",
    [firstKept],
  );
  if (last === undefined) {
    return;
  }
  const removed = await query("DELETE FROM flowgate.audit WHERE seq < $1 RETURNING seq", [firstKept]);
  const record = {
    kind: "audit_pruned",
    origin: systemOrigin,
    subject: formatHead(last),
    count: removed.length,
  } as const;
  await appendAudit(query, head, [record]);
}

/** The entry after which the log starts, according to the newest entry about removed ones. */
export async function readPruned(query: Query): Promise<AuditHead> {
  const [entry] = await query<Pick<AuditRow, "subject">>(
    "SELECT subject FROM flowgate.audit WHERE kind = 'audit_pruned' ORDER BY seq DESC LIMIT 1",
  );
  return parseHead(entry?.subject ?? "") ?? emptyHead;
}

/** The time of the database in milliseconds since the epoch, an SQL expression. */
export const nowMs = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/** Reads the clock of the database, which all replicas share. */
export async function readTimeMs(query: Query): Promise<number> {
  const [row] = await query<{ ms: number }>(`SELECT ${nowMs} AS ms`);
  return row?.ms ?? Date.now();
}
