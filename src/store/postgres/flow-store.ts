import { createListeners } from "../../listeners.ts";
import { type CommitCall, keyLifetimeMs, type Repeated, rootDraft, toCommitCall, toRevision } from "../commit-row.ts";
import { commitInDoubt, RepeatedRequest, versionMismatch } from "../errors.ts";
import {
  type ContentRow,
  type EntryRow,
  entryColumns,
  summaryColumns,
  type SummaryRow,
  toEntry,
  toStateColumns,
  toSummary,
} from "../revision-row.ts";
import type { FlowStore, Revision, RevisionDraft, RevisionEvent } from "../store.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { type ChangeCounts, type Changes, readCounts } from "./changes.ts";
import { type Database, InDoubt } from "./database.ts";
import { toPortable } from "../portable-text.ts";
import { compileFilter } from "./revision-filter.ts";
import { type CommitReply, pruneBatch, pruneRevisions, writeCommit } from "./revision-writes.ts";

/** `key` encrypts credentials. */
export async function createFlowStore(database: Database, changes: Changes, key: Buffer): Promise<FlowStore> {
  const { query } = database;
  const listeners = createListeners<RevisionEvent>();

  async function readRevision(rev: string): Promise<Revision | undefined> {
    const [row] = await query<SummaryRow & ContentRow>(
      `SELECT ${summaryColumns}, flows, credentials
       FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE rev = $1`,
      [toPortable(rev)],
    );
    return row && toRevision(row, key);
  }

  async function readNewest({ rev }: Pick<ChangeCounts, "rev">): Promise<Revision> {
    const revision = await readRevision(rev);
    if (revision === undefined) {
      throw new Error(`Revision ${rev} was removed from the database.`);
    }
    return revision;
  }

  // Read here, so that a wrong key or a damaged document is an error at the start.
  let active = await readNewest(changes.latest());
  let { reloads } = changes.latest();
  /** Commits of this store, which report their revisions themselves. */
  const committing = new Map<string, Promise<unknown>>();

  function activate(revision: Revision, isOwn: boolean): void {
    active = revision;
    listeners.notify({ revision, isOwn });
  }

  async function follow(counts: ChangeCounts): Promise<void> {
    // A revision of this store that is newer may follow after one of another replica.
    await Promise.allSettled(committing.values());
    if (counts.seq > active.seq) {
      const revision = await readNewest(counts);
      if (revision.seq > active.seq) {
        activate(revision, false);
      }
    } else if (counts.rev !== active.rev && (await isLost(active.rev))) {
      await replaceLost(active, counts);
    }
    // Counts from before a reload by this store may arrive after it.
    if (counts.reloads > reloads) {
      ({ reloads } = counts);
      listeners.notify({ revision: active, isOwn: false, isReload: true });
    }
  }
  changes.onChange(follow);

  async function isLost(rev: string): Promise<boolean> {
    const [row] = await query("SELECT FROM flowgate.revision WHERE rev = $1", [rev]);
    return row === undefined;
  }

  /**
   * A standby was promoted before it had received the revision `lost`. Commits the newest one once more, with a higher
   * sequence number, by which all replicas and runtimes recognize it as newer.
   */
  async function replaceLost(lost: Revision, counts: ChangeCounts): Promise<void> {
    const newest = await readNewest(counts);
    const draft: RevisionDraft = {
      ...rootDraft,
      parent: newest.rev,
      cause: "restore",
      restoredRev: newest.rev,
      flows: newest.flows,
      credentials: newest.credentials,
      message: `the database lost revision ${lost.rev} when a standby was promoted`,
    };
    // If another replica has done that, the next read notices its commit.
    const call = await toCommitCall(draft, key);
    const reply = await write(call, lost.seq + 1);
    if (reply.kind === "committed") {
      activate(await readNewest(call), false);
    }
  }

  /** If the connection fails during a commit, only the database shows whether it was committed. */
  async function write(call: CommitCall, minSeq: number): Promise<CommitReply> {
    try {
      return await database.transaction((query) => writeCommit(query, changes, call, minSeq));
    } catch (error) {
      if (!(error instanceof InDoubt)) {
        throw error;
      }
      // Written once more: this waits for the standby, if replication is synchronous, for which the first commit may not have waited.
      const [row] = await database
        .transaction((query) =>
          query<Pick<SummaryRow, "seq" | "committed_at_ms">>(
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

  async function commit(draft: RevisionDraft, call: CommitCall): Promise<Revision> {
    const written = await write(call, 0);
    if (written.kind === "mismatch") {
      // Read below, when this commit no longer blocks it.
      throw new Mismatch(written.newest);
    }
    if (written.kind === "repeated") {
      throw new RepeatedRequest(written.rev, written.fingerprint);
    }
    const { seq, committed_at_ms } = written;
    const { flows, credentials } = draft;
    const revision = Object.freeze({ ...toSummary({ ...call, seq, committed_at_ms }), flows, credentials });
    if (seq > active.seq) {
      activate(revision, true);
    }
    return revision;
  }

  async function rejectMismatch({ newest }: Mismatch): Promise<never> {
    // At once, since a caller who tries again competes with those who have read it already.
    const revision = newest.seq > active.seq ? await readNewest(newest) : undefined;
    if (revision === undefined) {
      await changes.refresh();
    } else if (revision.seq > active.seq) {
      activate(revision, false);
    }
    throw versionMismatch(active.rev);
  }

  return {
    active: () => active,

    async find(rev) {
      return rev === active.rev ? active : readRevision(rev);
    },

    async findEntry(rev) {
      const [row] = await query<EntryRow>(`SELECT ${entryColumns} FROM flowgate.revision WHERE rev = $1`, [
        toPortable(rev),
      ]);
      return row && toEntry(row);
    },

    async list({ limit, before = Number.MAX_SAFE_INTEGER, filter = {} }) {
      const { condition, values } = compileFilter(filter, [before]);
      const rows = await query<EntryRow>(
        `SELECT ${entryColumns} FROM flowgate.revision WHERE seq < $1${condition} ORDER BY seq DESC LIMIT $${values.length + 1}`,
        [...values, limit + 1],
      );
      const revisions = rows.slice(0, limit).map(toEntry);
      return { revisions, next: rows.length > limit ? revisions.at(-1)?.seq : undefined };
    },

    async commit(draft, signal) {
      if (draft.parent !== active.rev) {
        // Another replica may have committed it. If not, this saves the compression for most mismatches.
        await changes.refresh();
        if (draft.parent !== active.rev && draft.idempotencyKey === undefined) {
          throw versionMismatch(active.rev);
        }
      }
      const call = await toCommitCall(draft, key);
      signal?.throwIfAborted();
      const committed = commit(draft, call).finally(() => committing.delete(call.rev));
      committing.set(call.rev, committed);
      return committed.catch((error: unknown) => {
        if (error instanceof Mismatch) {
          return rejectMismatch(error);
        }
        throw error;
      });
    },

    async findRepeated(by, idempotencyKey) {
      const [row] = await query<Repeated>(
        'SELECT rev, fingerprint FROM flowgate.idempotency_key WHERE "user" = $1 AND key = $2 AND created_at_ms >= $3',
        [toPortable(by ?? ""), toPortable(idempotencyKey), Date.now() - keyLifetimeMs],
      );
      return row && new RepeatedRequest(row.rev, row.fingerprint);
    },

    async update(rev, change, entry) {
      const columns = toStateColumns(change);
      const names = Object.keys(columns);
      const assignments = names.map((name, index) => `${name} = $${index + 2}`).join(", ");
      const row = await database.transaction(async (query) => {
        const head = entry && (await lockAudit(query));
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
      });
      return row && toEntry(row);
    },

    async prune(retention) {
      let total = 0;
      for (;;) {
        const removed = await database.transaction((query) => pruneRevisions(query, retention));
        total += removed;
        if (removed < pruneBatch) {
          return total;
        }
      }
    },

    async reload() {
      const revision = await readNewest(await readCounts(query));
      await database.transaction(async (query) => {
        const [row] = await query<{ reloads: number }>(
          "UPDATE flowgate.change SET reloads = reloads + 1 RETURNING reloads",
        );
        // Not reported to the listeners of this store, which restarts its nodes itself.
        reloads = Math.max(reloads, row?.reloads ?? 0);
        await changes.announce(query);
      });
      if (revision.seq > active.seq) {
        activate(revision, false);
      }
      return revision;
    },

    catchUp: () => changes.refresh(),

    onRevision: (listener) => listeners.add(listener),
  };
}

class Mismatch extends Error {
  readonly newest: Pick<SummaryRow, "seq" | "rev">;

  constructor(newest: Mismatch["newest"]) {
    super();
    this.newest = newest;
  }
}
