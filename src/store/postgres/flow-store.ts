import { type CommitCall, keyLifetimeMs, type Repeated, toCommitCall, toCommitted } from "../commit-row.ts";
import { RepeatedRequest, versionMismatch } from "../errors.ts";
import type { FlowStore, RevisionDraft } from "../flow-store.ts";
import { toPortable } from "../portable-text.ts";
import { pruneInBatches } from "../prune-batches.ts";
import { type ContentRow, type EntryRow, entryColumns, toEntry, toPage, toStateColumns } from "../revision-row.ts";
import type { Revision } from "../revision.ts";
import { openCredentials } from "../seal.ts";
import { openActiveRevision } from "./active-revision.ts";
import { nowMs } from "./audit-log.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";
import { readExistingRevision, readRevision } from "./read-revision.ts";
import { compileFilter } from "./revision-filter.ts";
import { commitRevision, type Newest, pruneRevisions, updateRevision } from "./revision-writes.ts";

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
