import {
  type AssignedColumns,
  type CommitCall,
  keyLifetimeMs,
  type Repeated,
  rootDraft,
  toAuditRecord,
  toPruneRecord,
  toCommitCall,
  type UpdateCall,
  type EntryRow,
  entryColumns,
  type RevisionRow,
  type SummaryRow,
} from "../sql/revision-row.ts";
import { commitInDoubt, tooManyPinned, type Retention } from "../flow-store.ts";
import { toPortable } from "../sql/query.ts";
import { pruneBatch } from "../sql/revisions.ts";
import { appendAudit, lockAudit, readTimeMs } from "./audit-log.ts";
import type { Changes } from "./changes.ts";
import { type Database, type Query, InDoubt } from "./database.ts";
import { insert } from "./insert.ts";

export type Newest = Pick<SummaryRow, "seq" | "rev">;

export type CommitReply =
  | ({ readonly kind: "committed" } & AssignedColumns)
  /** The parent is not the newest revision, which is this one. */
  | { readonly kind: "mismatch"; readonly newest: Newest }
  /** The idempotency key belongs to this revision. */
  | ({ readonly kind: "repeated" } & Repeated);

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

/**
 * Commits a revision, whose sequence number is at least `minSeq`, if its parent is the newest one. If the connection fails during
 * the commit, only the database shows whether it was committed.
 */
export async function commitRevision(
  database: Database,
  changes: Changes,
  call: CommitCall,
  minSeq: number,
): Promise<CommitReply> {
  try {
    return await database.transaction((query) => writeCommit(query, changes, call, minSeq));
  } catch (error) {
    if (!(error instanceof InDoubt)) {
      throw error;
    }
    // Written once more: this waits for the standby, if replication is synchronous, for which the first commit may not have waited.
    const [row] = await database
      .transaction((query) =>
        query<AssignedColumns>(
          "UPDATE flowgate.revision SET cause = cause WHERE rev = $1 RETURNING seq, committed_at_ms",
          [call.rev],
        ),
      )
      .catch(() => []);
    if (row === undefined) {
      throw commitInDoubt();
    }
    return { kind: "committed", ...row };
  }
}

async function writeCommit(
  query: Query,
  changes: Changes,
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
  const row = { ...draft, ...written };
  await insertRevision(query, row);
  if (idempotencyKey !== undefined) {
    await insert(query, "idempotency_key", { ...idempotencyKey, rev: draft.rev, created_at_ms: nowMs });
  }
  await query("UPDATE flowgate.revision SET outcome = 'replaced' WHERE rev = $1 AND outcome = 'pending'", [
    draft.parent,
  ]);
  await appendAudit(query, head, [toAuditRecord(row)]);
  await changes.announce(query);
  return { kind: "committed", ...written };
}

async function insertRevision(query: Query, { flows, credentials, kept, ...row }: RevisionRow): Promise<void> {
  await insert(query, "revision", row);
  await insert(query, "revision_content", { seq: row.seq, flows, credentials, kept });
}

/** Resolves with undefined if there is no such revision. */
export async function updateRevision(
  query: Query,
  { rev, columns, entry, maxPinned }: UpdateCall,
): Promise<EntryRow | undefined> {
  // Also excludes others that pin.
  const head = entry && (await lockAudit(query));
  if (columns.pinned === 1 && maxPinned !== undefined) {
    const text = "SELECT count(*) AS count FROM flowgate.revision WHERE pinned = 1 AND rev <> $1";
    const [pins] = await query<{ count: number }>(text, [toPortable(rev)]);
    if ((pins?.count ?? 0) >= maxPinned) {
      throw tooManyPinned(maxPinned);
    }
  }
  const names = Object.keys(columns);
  const assignments = names.map((name, index) => `${name} = $${index + 2}`).join(", ");
  const [row] = await query<EntryRow>(
    names.length === 0
      ? `SELECT ${entryColumns} FROM flowgate.revision WHERE rev = $1`
      : `UPDATE flowgate.revision SET ${assignments} WHERE rev = $1 RETURNING ${entryColumns}`,
    [rev, ...Object.values(columns)].map((value) => toPortable(value)),
  );
  if (row !== undefined && head !== undefined && entry !== undefined) {
    await appendAudit(query, head, [entry]);
  }
  return row;
}

/** Removes at most `pruneBatch` revisions, and returns their number. */
export async function pruneRevisions(query: Query, { maxCount, maxAgeMs }: Retention): Promise<number> {
  const head = await lockAudit(query);
  const oldestMs = maxAgeMs === undefined ? 0 : (await readTimeMs(query)) - maxAgeMs;
  // The active revision and its parent, which has the highest lower sequence number, are kept.
  const removed = await query<Pick<SummaryRow, "rev">>(
    `DELETE FROM flowgate.revision WHERE seq IN (
       SELECT seq FROM flowgate.revision
       WHERE pinned = 0 AND seq < (SELECT min(seq) FROM (SELECT seq FROM flowgate.revision ORDER BY seq DESC LIMIT 2) AS kept)
         AND (committed_at_ms < $1 OR seq <= (SELECT seq FROM flowgate.revision ORDER BY seq DESC LIMIT 1 OFFSET $2))
       ORDER BY seq LIMIT ${pruneBatch} FOR UPDATE SKIP LOCKED)
     RETURNING rev`,
    [oldestMs, maxCount],
  );
  if (removed.length > 0) {
    await appendAudit(query, head, [toPruneRecord(removed.map(({ rev }) => rev))]);
  }
  return removed.length;
}
