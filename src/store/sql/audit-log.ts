import { hash } from "node:crypto";
import type { AuditEntry, AuditHead, AuditKind, AuditRecord } from "../audit-store.ts";
import { toPortable } from "./query.ts";
import { toTokenOrigin } from "./revision-row.ts";

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

/** The table `audit`, which has the same columns in all adapters. */
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
export function toAuditRow(
  previous: AuditHead,
  { kind, origin, subject, detail, digest, count = 1 }: AuditRecord,
  timeMs: number,
): AuditRow {
  const entry: Omit<AuditEntry, "hash"> = {
    seq: previous.seq + 1,
    timeMs,
    kind,
    origin: {
      by: toText(origin.by),
      token: origin.token && { id: origin.token.id, name: toText(origin.token.name) },
      address: toText(origin.address),
      protocol: toText(origin.protocol),
      requestId: toText(origin.requestId),
    },
    subject: toText(subject),
    detail: toText(detail),
    count,
    digest,
  };
  return {
    seq: entry.seq,
    time_ms: timeMs,
    kind,
    user: entry.origin.by ?? null,
    address: entry.origin.address ?? null,
    protocol: entry.origin.protocol ?? null,
    request_id: entry.origin.requestId ?? null,
    subject: entry.subject ?? null,
    detail: entry.detail ?? null,
    count,
    token_id: entry.origin.token?.id ?? null,
    token_name: entry.origin.token?.name ?? null,
    digest: digest ?? null,
    hash: hashEntry(previous.hash, entry),
  };
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

/** Databases store text as UTF-8, which can't represent lone surrogates. */
function toText(text: string | undefined): string | undefined {
  return toPortable(text?.toWellFormed());
}
