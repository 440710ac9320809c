import { hash } from "node:crypto";
import {
  type AuditEntry,
  type AuditHead,
  type AuditKind,
  type AuditPage,
  type AuditQuery,
  type AuditRecord,
  emptyHead,
  formatHead,
  parseHead,
  systemOrigin,
} from "../audit-store.ts";
import { insert, nowMs, type Query, toCondition, toPage, toPortable } from "./query.ts";
import { toTokenOrigin } from "./revision-row.ts";

/** The table `audit`. */
export type AuditRow = {
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
  token_id: string | null;
  token_name: string | null;
  digest: string | null;
  hash: string;
};

/** The entry that follows `previous` in the log. */
export function toAuditRow(previous: AuditHead, record: AuditRecord, timeMs: number): AuditRow {
  const { by, token, address, protocol, requestId } = record.origin;
  const row: AuditRow = {
    seq: previous.seq + 1,
    time_ms: timeMs,
    kind: record.kind,
    user: toText(by),
    address: toText(address),
    protocol: toText(protocol),
    request_id: toText(requestId),
    subject: toText(record.subject),
    detail: toText(record.detail),
    count: record.count ?? 1,
    token_id: token?.id ?? null,
    token_name: toText(token?.name),
    digest: record.digest ?? null,
    hash: "",
  };
  return { ...row, hash: hashEntry(previous.hash, toAuditEntry(row)) };
}

/** Databases store text as UTF-8, which can't represent lone surrogates. */
function toText(text: string | undefined): string | null {
  return text === undefined ? null : toPortable(text.toWellFormed());
}

export function toAuditEntry(row: unknown): AuditEntry {
  const { seq, time_ms, kind, user, address, protocol, request_id, subject, detail, count, hash, ...added } =
    row as AuditRow;
  return {
    seq,
    timeMs: time_ms,
    kind,
    origin: {
      by: user ?? undefined,
      token: toTokenOrigin(added),
      address: address ?? undefined,
      protocol: protocol ?? undefined,
      requestId: request_id ?? undefined,
    },
    subject: subject ?? undefined,
    detail: detail ?? undefined,
    count,
    digest: added.digest ?? undefined,
    hash,
  };
}

/**
 * The hash of an entry: SHA-256, in hexadecimal, of the UTF-8 encoding of a JSON array without spaces, which contains the hash
 * of the previous entry ("" for the first one) and the fields of this one; absent fields are null. If the entry has a token or a
 * digest, id and name of the token and the digest follow. Must never change.
 */
export function hashEntry(previousHash: string, entry: Omit<AuditEntry, "hash">): string {
  const { seq, timeMs, kind, origin, subject, detail, count, digest } = entry;
  const { by, token, address, protocol, requestId } = origin;
  const fields = [previousHash, seq, timeMs, kind, by, address, protocol, requestId, subject, detail, count];
  if (token !== undefined || digest !== undefined) {
    fields.push(token?.id, token?.name, digest);
  }
  // JSON.stringify writes null for undefined items.
  return hash("sha256", JSON.stringify(fields));
}

/** The audit log in a transaction that no other one can append to it meanwhile. */
export type LockedLog = {
  readonly query: Query;
  /** The time of the store after the log was locked. */
  readonly nowMs: number;
  readonly head: AuditHead;
};

/**
 * Locks the audit log. Must be the first statement of transactions that write audit entries: they are committed one after
 * another then, and can't wait for each other's locks.
 */
export async function lockAudit(query: Query): Promise<LockedLog> {
  const [recorded = emptyHead] = await query<AuditHead>("SELECT seq, hash FROM flowgate.audit_head FOR UPDATE");
  // A statement of its own, because one that waits for a lock reads the other tables as they were before.
  const [now] = await query<{ ms: number; seq: number | null }>(
    `SELECT ${nowMs} AS ms, (SELECT max(seq) FROM flowgate.audit) AS seq`,
  );
  // The numbers differ only if the log was changed, which must neither prevent further entries nor be hidden by them.
  const seq = Math.max(recorded.seq, now?.seq ?? 0);
  return { query, nowMs: now?.ms ?? Date.now(), head: { seq, hash: recorded.hash } };
}

/** Appends entries to the log. Can be called once. */
export async function appendAudit({ query, nowMs, head }: LockedLog, records: readonly AuditRecord[]): Promise<void> {
  let last = head;
  for (const record of records) {
    const row = toAuditRow(last, record, nowMs);
    await insert(query, "audit", row);
    last = row;
  }
  await writeHead(query, last);
}

/** Removes entries as `AuditStore.prune` does. */
export async function pruneAudit(query: Query, maxAgeMs: number): Promise<void> {
  const log = await lockAudit(query);
  // Up to the first entry that is to be kept, since the clock may have been set back between entries.
  const [kept] = await query<{ seq: number | null }>("SELECT min(seq) AS seq FROM flowgate.audit WHERE time_ms >= $1", [
    log.nowMs - maxAgeMs,
  ]);
  const firstKept = kept?.seq ?? log.head.seq;
  const [last] = await query<AuditHead>(
    "SELECT seq, hash FROM flowgate.audit WHERE seq < $1 ORDER BY seq DESC LIMIT 1",
    [firstKept],
  );
  if (last !== undefined) {
    const removed = await query("DELETE FROM flowgate.audit WHERE seq < $1 RETURNING seq", [firstKept]);
    const subject = formatHead(last);
    await appendAudit(log, [{ kind: "audit_pruned", origin: systemOrigin, subject, count: removed.length }]);
  }
}

export async function listAudit(query: Query, page: AuditQuery): Promise<AuditPage> {
  const { limit, order, after, kinds = [], user, fromMs, untilMs } = page;
  const [comparison, direction] = order === "newest" ? ["seq <", "DESC"] : ["seq >", "ASC"];
  const { condition, values } = toCondition([
    [comparison, after],
    ["kind IN", kinds.length === 0 ? undefined : kinds],
    ['"user" =', user],
    ["time_ms >=", fromMs],
    ["time_ms <", untilMs],
  ]);
  const rows = await query<AuditRow>(
    `SELECT * FROM flowgate.audit WHERE ${condition} ORDER BY seq ${direction} LIMIT $${values.length + 1}`,
    [...values, limit + 1],
  );
  const { rows: entries, next } = toPage(rows, limit);
  return { entries: entries.map(toAuditEntry), next };
}

/** The newest entry as it was recorded separately, without which removed entries at the end would not be noticed. */
export async function readHead(query: Query): Promise<AuditHead> {
  const [head] = await query<AuditHead>("SELECT seq, hash FROM flowgate.audit_head");
  return head ?? emptyHead;
}

export async function writeHead(query: Query, { seq, hash }: AuditHead): Promise<void> {
  await query(
    `INSERT INTO flowgate.audit_head (id, seq, hash) VALUES (0, $1, $2)
     ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`,
    [seq, hash],
  );
}

/** The entry after which the log starts, according to the newest entry about removed ones. */
export async function readPruned(query: Query): Promise<AuditHead> {
  const [entry] = await query<Pick<AuditRow, "subject">>(
    "SELECT subject FROM flowgate.audit WHERE kind = 'audit_pruned' ORDER BY seq DESC LIMIT 1",
  );
  return parseHead(entry?.subject ?? "") ?? emptyHead;
}
