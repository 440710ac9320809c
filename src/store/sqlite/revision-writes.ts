import type { DatabaseSync } from "node:sqlite";
import { tooManyPinned, type Retention } from "../flow-store.ts";
import { appendAudit } from "./audit-log.ts";
import {
  type AssignedColumns,
  type CommitCall,
  keyLifetimeMs,
  type Repeated,
  toAuditRecord,
  toPruneRecord,
  type UpdateCall,
  type UsedKey,
  type EntryRow,
  entryColumns,
  type SummaryRow,
  type RevisionRow,
  summaryColumns,
} from "../sql/revision-row.ts";
import { pruneBatch } from "../sql/revisions.ts";
import { inTransaction } from "./transaction.ts";

export type CommitReply =
  | ({ readonly kind: "committed" } & AssignedColumns)
  /** The parent is not the newest revision. */
  | { readonly kind: "mismatch" }
  /** The idempotency key belongs to this revision. */
  | ({ readonly kind: "repeated" } & Repeated);

/** The operations that write revisions. */
export type RevisionWrites = {
  commit(draft: CommitCall): CommitReply;
  /** Returns the changed row; undefined if there is no such revision. */
  update(call: UpdateCall): EntryRow | undefined;
  /** Removes at most `pruneBatch` revisions, and returns their number. */
  prune(retention: Retention): number;
};

/** Fewer free pages (of 4 KiB) are left for the next revisions. */
const maxFreePages = 256;

export function revisionWrites(db: DatabaseSync): RevisionWrites {
  const findKey = db.prepare("SELECT rev, fingerprint FROM idempotency_key WHERE user = ? AND key = ?");
  const insertKey = db.prepare(
    "INSERT INTO idempotency_key (user, key, fingerprint, rev, created_at_ms) VALUES (?, ?, ?, ?, ?)",
  );
  const removeKeys = db.prepare("DELETE FROM idempotency_key WHERE created_at_ms < ?");
  const selectEntry = db.prepare(`SELECT ${entryColumns} FROM revision WHERE rev = ?`);
  const countOtherPins = db.prepare("SELECT count(*) AS count FROM revision WHERE pinned = 1 AND rev <> ?");
  const markReplaced = db.prepare("UPDATE revision SET outcome = 'replaced' WHERE rev = ? AND outcome = 'pending'");
  // The parent of the newest revision has the previous sequence number.
  const selectExcess = db.prepare(
    `SELECT seq, rev FROM revision
     WHERE pinned = 0 AND seq < (SELECT max(seq) - 1 FROM revision)
       AND (committed_at_ms < :oldestMs OR seq <= (SELECT seq FROM revision ORDER BY seq DESC LIMIT 1 OFFSET :maxCount))
     ORDER BY seq LIMIT ${pruneBatch}`,
  );
  const removeRevision = db.prepare("DELETE FROM revision WHERE seq = ?");
  const removeContent = db.prepare("DELETE FROM revision_content WHERE seq = ?");

  /** Returns the earlier use of a key, if there is one. */
  function findUse({ user, key }: UsedKey, nowMs: number): Repeated | undefined {
    removeKeys.run(nowMs - keyLifetimeMs);
    return findKey.get(user, key) as Repeated | undefined;
  }

  return {
    commit({ idempotencyKey, ...draft }) {
      return inTransaction(db, () => {
        const nowMs = Date.now();
        const repeated = idempotencyKey && findUse(idempotencyKey, nowMs);
        if (repeated !== undefined) {
          return { kind: "repeated", ...repeated };
        }
        const newest = selectNewest(db);
        if (newest?.rev !== draft.parent) {
          return { kind: "mismatch" };
        }
        if (idempotencyKey !== undefined) {
          const { user, key, fingerprint } = idempotencyKey;
          insertKey.run(user, key, fingerprint, draft.rev, nowMs);
        }
        const written: AssignedColumns = { seq: newest.seq + 1, committed_at_ms: nowMs };
        const row = { ...draft, ...written };
        insertRevision(db, row);
        markReplaced.run(draft.parent);
        appendAudit(db, toAuditRecord(row));
        return { kind: "committed", ...written };
      });
    },

    update({ rev, columns, entry, maxPinned = Infinity }) {
      const names = Object.keys(columns);
      return inTransaction(db, () => {
        if (columns.pinned === 1 && Number(countOtherPins.get(rev)?.["count"]) >= maxPinned) {
          throw tooManyPinned(maxPinned);
        }
        if (names.length > 0) {
          const assignments = names.map((name) => `${name} = :${name}`).join(", ");
          db.prepare(`UPDATE revision SET ${assignments} WHERE rev = :rev`).run({ ...columns, rev });
        }
        const row = selectEntry.get(rev) as EntryRow | undefined;
        if (row !== undefined && entry !== undefined) {
          appendAudit(db, entry);
        }
        return row;
      });
    },

    prune({ maxCount, maxAgeMs }) {
      const removed = inTransaction(db, () => {
        const oldestMs = maxAgeMs === undefined ? 0 : Date.now() - maxAgeMs;
        const excess = selectExcess.all({ oldestMs, maxCount }) as Pick<SummaryRow, "seq" | "rev">[];
        for (const { seq } of excess) {
          removeRevision.run(seq);
          removeContent.run(seq);
        }
        if (excess.length > 0) {
          appendAudit(db, toPruneRecord(excess.map(({ rev }) => rev)));
        }
        return excess.length;
      });
      freeSpace(db);
      return removed;
    },
  };
}

/** Returns free pages to the file system. */
function freeSpace(db: DatabaseSync): void {
  const free = Number(db.prepare("PRAGMA freelist_count").get()?.["freelist_count"]);
  if (free > maxFreePages) {
    db.exec("PRAGMA incremental_vacuum");
  }
}

export function insertRevision(db: DatabaseSync, { flows, credentials, kept, ...row }: RevisionRow): void {
  const names = Object.keys(row);
  db.prepare(`INSERT INTO revision (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`).run(
    row,
  );
  db.prepare("INSERT INTO revision_content (seq, flows, credentials, kept) VALUES (?, ?, ?, ?)").run(
    row.seq,
    flows,
    credentials,
    kept,
  );
}

export function selectNewest(db: DatabaseSync): SummaryRow | undefined {
  return db.prepare(`SELECT ${summaryColumns} FROM revision ORDER BY seq DESC LIMIT 1`).get() as SummaryRow | undefined;
}
