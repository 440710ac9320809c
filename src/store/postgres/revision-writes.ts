import {
  type CommitCall,
  keyLifetimeMs,
  type Repeated,
  rootDraft,
  toAuditRecord,
  toCommitCall,
} from "../commit-row.ts";
import type { RevisionRow, SummaryRow } from "../revision-row.ts";
import type { Retention } from "../store.ts";
import { appendAudit, lockAudit, readTimeMs } from "./audit-log.ts";
import type { Changes } from "./changes.ts";
import type { Database, Query } from "./database.ts";
import { insert } from "./insert.ts";

type Newest = Pick<SummaryRow, "seq" | "rev">;

export type CommitReply =
  | ({ readonly kind: "committed" } & Pick<SummaryRow, "seq" | "committed_at_ms">)
  /** The parent is not the newest revision, which is this one. */
  | { readonly kind: "mismatch"; readonly newest: Newest }
  /** The idempotency key belongs to this revision. */
  | ({ readonly kind: "repeated" } & Repeated);

/** Limits how long commits wait for a removal. */
export const pruneBatch = 100;

/** Inserts the first revision, without flows, if there is none. */
export async function insertRoot(database: Database, key: Buffer): Promise<void> {
  const isEmpty = async (query: Query): Promise<boolean> => {
    const rows = await query("SELECT FROM flowgate.revision LIMIT 1");
    return rows.length === 0;
  };
  if (!(await isEmpty(database.query))) {
    return;
  }
  const { idempotencyKey: _, ...row } = await toCommitCall(rootDraft, key);
  await database.transaction(async (query) => {
    await lockAudit(query);
    if (await isEmpty(query)) {
      await insertRevision(query, { ...row, parent: null, seq: 1, committed_at_ms: await readTimeMs(query) });
    }
  });
}

/** Commits a revision, whose sequence number is at least `minSeq`, if its parent is the newest one. */
export async function writeCommit(
  query: Query,
  changes: Pick<Changes, "announce">,
  { idempotencyKey, ...draft }: CommitCall,
  minSeq: number,
): Promise<CommitReply> {
  // Excludes other commits, so that the newest revision stays the newest one.
  const head = await lockAudit(query);
  const nowMs = await readTimeMs(query);
  if (idempotencyKey !== undefined) {
    await query("DELETE FROM flowgate.idempotency_key WHERE created_at_ms < $1", [nowMs - keyLifetimeMs]);
    const [repeated] = await query<Repeated>(
      'SELECT rev, fingerprint FROM flowgate.idempotency_key WHERE "user" = $1 AND key = $2',
      [idempotencyKey.user, idempotencyKey.key],
    );
    if (repeated !== undefined) {
      return { kind: "repeated", ...repeated };
    }
  }
  const [newest] = await query<Newest>("SELECT seq, rev FROM flowgate.revision ORDER BY seq DESC LIMIT 1");
  if (newest === undefined) {
    throw new Error("the table of revisions is empty: restore the database from a backup");
  }
  if (newest.rev !== draft.parent) {
    return { kind: "mismatch", newest };
  }
  const written = { seq: Math.max(newest.seq + 1, minSeq), committed_at_ms: nowMs };
  await insertRevision(query, { ...draft, ...written });
  if (idempotencyKey !== undefined) {
    await insert(query, "idempotency_key", { ...idempotencyKey, rev: draft.rev, created_at_ms: nowMs });
  }
  await query("UPDATE flowgate.revision SET outcome = 'replaced' WHERE rev = $1 AND outcome = 'pending'", [
    draft.parent,
  ]);
  await appendAudit(query, head, [toAuditRecord(draft)]);
  await changes.announce(query);
  return { kind: "committed", ...written };
}

async function insertRevision(query: Query, { flows, credentials, ...row }: RevisionRow): Promise<void> {
  await insert(query, "revision", row);
  await insert(query, "revision_content", { seq: row.seq, flows, credentials });
}

/** Removes at most `pruneBatch` revisions, and returns their number. */
export async function pruneRevisions(query: Query, { maxCount, maxAgeMs }: Retention): Promise<number> {
  const oldestMs = maxAgeMs === undefined ? 0 : Date.now() - maxAgeMs;
  // The active revision and its parent, which has the highest lower sequence number, are kept.
  const removed = await query(
    `DELETE FROM flowgate.revision WHERE seq IN (
       SELECT seq FROM flowgate.revision
       WHERE pinned = 0 AND seq < (SELECT min(seq) FROM (SELECT seq FROM flowgate.revision ORDER BY seq DESC LIMIT 2) AS kept)
         AND (committed_at_ms < $1 OR seq <= (SELECT seq FROM flowgate.revision ORDER BY seq DESC LIMIT 1 OFFSET $2))
       ORDER BY seq LIMIT ${pruneBatch} FOR UPDATE SKIP LOCKED)
     RETURNING seq`,
    [oldestMs, maxCount],
  );
  return removed.length;
}
