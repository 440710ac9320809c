import {
  type CommitCall,
  keyLifetimeMs,
  type Repeated,
  toCommitCall,
  toCommitted,
  type ContentRow,
  type EntryRow,
  entryColumns,
  toEntry,
  toPage,
  toStateColumns,
  rootDraft,
  toRevision,
  contentColumns,
  summaryColumns,
  type SummaryRow,
} from "../sql/revision-row.ts";
import {
  RepeatedRequest,
  versionMismatch,
  type FlowStore,
  type RevisionDraft,
  type RevisionFilter,
  type RevisionEvent,
} from "../flow-store.ts";
import { toPortable } from "../sql/query.ts";
import { pruneInBatches } from "../sql/revisions.ts";
import type { Revision } from "../revision.ts";
import { openCredentials } from "../credentials.ts";
import { nowMs } from "./audit-log.ts";
import { type Changes, type ChangeCounts, readCounts } from "./changes.ts";
import type { Database, Query } from "./database.ts";
import { commitRevision, type Newest, pruneRevisions, updateRevision } from "./revision-writes.ts";
import { createListeners } from "../../base/listeners.ts";

/** `key` encrypts credentials. */
export async function createFlowStore(database: Database, changes: Changes, key: Buffer): Promise<FlowStore> {
  const { query } = database;
  const current = await openActiveRevision(database, changes, key);
  const active = (): Revision => current.active();

  async function commit(draft: RevisionDraft, call: CommitCall) {
    const reply = await commitRevision(database, changes, call, 0);
    if (reply.kind !== "committed") {
      return reply;
    }
    const revision = toCommitted(draft, call, reply);
    current.activate(revision, true);
    return { kind: reply.kind, revision };
  }

  async function rejectMismatch(newest: Newest): Promise<never> {
    // At once, since a caller who tries again competes with those who have read it already.
    if (newest.seq > active().seq) {
      current.activate(await readExistingRevision(query, newest.rev, key), false);
    } else {
      await changes.refresh();
    }
    throw versionMismatch(active().rev);
  }

  return {
    active,

    async find(rev) {
      return rev === active().rev ? active() : readRevision(query, rev, key);
    },

    async findCredentials(rev) {
      const [row] = await query<Pick<ContentRow, "credentials">>(
        "SELECT credentials FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE rev = $1",
        [toPortable(rev)],
      );
      return row && openCredentials(key, rev, row.credentials);
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
      return toPage(rows, limit);
    },

    async commit(draft, signal) {
      if (draft.parent !== active().rev) {
        // Another replica may have committed it. If not, this saves the compression for most mismatches.
        await changes.refresh();
        if (draft.parent !== active().rev && draft.idempotencyKey === undefined) {
          throw versionMismatch(active().rev);
        }
      }
      const call = await toCommitCall(draft, key);
      signal?.throwIfAborted();
      const reply = await current.duringCommit(() => commit(draft, call));
      switch (reply.kind) {
        case "committed":
          return reply.revision;
        case "mismatch":
          return rejectMismatch(reply.newest);
        case "repeated":
          throw new RepeatedRequest(reply.rev, reply.fingerprint);
      }
    },

    async findRepeated(by, idempotencyKey) {
      const [row] = await query<Repeated>(
        `SELECT rev, fingerprint FROM flowgate.idempotency_key WHERE "user" = $1 AND key = $2 AND created_at_ms >= ${nowMs} - $3`,
        [toPortable(by ?? ""), toPortable(idempotencyKey), keyLifetimeMs],
      );
      return row && new RepeatedRequest(row.rev, row.fingerprint);
    },

    async update(rev, change, entry, maxPinned) {
      const call = { rev, columns: toStateColumns(change), entry, maxPinned };
      const row = await database.transaction((query) => updateRevision(query, call));
      return row && toEntry(row);
    },

    prune: (retention) => pruneInBatches(() => database.transaction((query) => pruneRevisions(query, retention))),

    reload: () => current.reload(),

    catchUp: () => changes.refresh(),

    onRevision: (listener) => current.onRevision(listener),
  };
}

/** Translates a filter to conditions, each of which begins with AND, and adds their parameters to `values`. */
export function compileFilter(
  { by, deploymentType, outcome, pinned, fromMs, untilMs }: RevisionFilter,
  values: readonly unknown[],
): { readonly condition: string; readonly values: readonly unknown[] } {
  const terms = [
    ["deployed_by =", by],
    ["deployment_type =", deploymentType],
    ["outcome =", outcome],
    ["pinned =", pinned === undefined ? undefined : Number(pinned)],
    ["committed_at_ms >=", fromMs],
    ["committed_at_ms <", untilMs],
  ].filter(([, value]) => value !== undefined);
  return {
    condition: terms.map(([term], index) => ` AND ${String(term)} $${values.length + index + 1}`).join(""),
    values: [...values, ...terms.map(([, value]) => toPortable(value))],
  };
}

/** The newest known revision, in memory. */
export interface ActiveRevision extends Pick<FlowStore, "active" | "reload" | "onRevision"> {
  /** Makes the revision the active one, and reports it, if it is newer. */
  activate(revision: Revision, isOwn: boolean): void;
  /**
   * Runs a commit of this store, which activates its revision itself. Revisions of other replicas become active afterwards,
   * since they may be newer.
   */
  duringCommit<T>(commit: () => Promise<T>): Promise<T>;
}

/** Follows what other replicas commit. `key` decrypts the credentials. */
export async function openActiveRevision(database: Database, changes: Changes, key: Buffer): Promise<ActiveRevision> {
  const { query } = database;
  const listeners = createListeners<RevisionEvent>();
  const readNewest = ({ rev }: ChangeCounts): Promise<Revision> => readExistingRevision(query, rev, key);
  // Read here, so that a wrong key or a damaged document is an error at the start.
  let active = await readNewest(changes.latest());
  let { reloads } = changes.latest();
  const commits = new Set<Promise<unknown>>();

  function activate(revision: Revision, isOwn: boolean): void {
    if (revision.seq > active.seq) {
      active = revision;
      listeners.notify({ revision, isOwn });
    }
  }

  async function follow(counts: ChangeCounts): Promise<void> {
    // A revision of this store that is newer may follow after one of another replica.
    await Promise.allSettled(commits);
    if (counts.seq > active.seq) {
      activate(await readNewest(counts), false);
    } else if (counts.rev !== active.rev && (await isLost(query, active.rev))) {
      const replacement = await replaceLost(database, changes, { lost: active, newestRev: counts.rev, key });
      // If another replica has made it, the next read notices its commit.
      if (replacement !== undefined) {
        activate(replacement, false);
      }
    }
    // Counts from before a reload by this store may arrive after it.
    if (counts.reloads > reloads) {
      ({ reloads } = counts);
      listeners.notify({ revision: active, isOwn: false, isReload: true });
    }
  }
  changes.onChange(follow);

  return {
    active: () => active,
    activate,

    async duringCommit(commit) {
      const committing = commit();
      commits.add(committing);
      try {
        return await committing;
      } finally {
        commits.delete(committing);
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
      activate(revision, false);
      return revision;
    },

    onRevision: (listener) => listeners.add(listener),
  };
}

/** Whether the database no longer has a revision, because a standby was promoted before it had received it. */
export async function isLost(query: Query, rev: string): Promise<boolean> {
  const [row] = await query("SELECT FROM flowgate.revision WHERE rev = $1", [rev]);
  return row === undefined;
}

/**
 * Commits the revision `newestRev` once more, with a higher sequence number than `lost`, by which all replicas and runtimes
 * recognize it as newer. Resolves with undefined if another replica has done that.
 */
export async function replaceLost(
  database: Database,
  changes: Changes,
  { lost, newestRev, key }: { readonly lost: Revision; readonly newestRev: string; readonly key: Buffer },
): Promise<Revision | undefined> {
  const newest = await readExistingRevision(database.query, newestRev, key);
  const draft: RevisionDraft = {
    ...rootDraft,
    parent: newest.rev,
    cause: "restore",
    restoredRev: newest.rev,
    flows: newest.flows,
    credentials: newest.credentials,
    message: `the database lost revision ${lost.rev} when a standby was promoted`,
  };
  const call = await toCommitCall(draft, key);
  const reply = await commitRevision(database, changes, call, lost.seq + 1);
  return reply.kind === "committed" ? readExistingRevision(database.query, call.rev, key) : undefined;
}

/** Resolves with undefined if there is no such revision. `key` decrypts the credentials. */
export async function readRevision(query: Query, rev: string, key: Buffer): Promise<Revision | undefined> {
  const [row] = await query<SummaryRow & ContentRow>(
    `SELECT ${summaryColumns}, ${contentColumns}
     FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE rev = $1`,
    [toPortable(rev)],
  );
  return row && toRevision(row, key);
}

/** Rejects if there is no such revision. */
export async function readExistingRevision(query: Query, rev: string, key: Buffer): Promise<Revision> {
  const revision = await readRevision(query, rev, key);
  if (revision === undefined) {
    throw new Error(`Revision ${rev} was removed from the database.`);
  }
  return revision;
}
