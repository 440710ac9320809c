import type { DatabaseSync } from "node:sqlite";
import {
  type CommitCall,
  keyLifetimeMs,
  type Repeated,
  rootDraft,
  toCommitCall,
  toCommitted,
  toRevision,
  contentColumns,
  type ContentRow,
  type EntryRow,
  entryColumns,
  type RevisionRow,
  summaryColumns,
  type SummaryRow,
  toEntry,
  toPage,
  toStateColumns,
} from "../sql/revision-row.ts";
import {
  RepeatedRequest,
  versionMismatch,
  type FlowStore,
  type RevisionEvent,
  type RevisionFilter,
} from "../flow-store.ts";
import { createListeners } from "../../base/listeners.ts";
import { pruneInBatches } from "../sql/revisions.ts";
import type { Revision } from "../revision.ts";
import { openCredentials } from "../credentials.ts";
import { insertRevision, selectNewest, type CommitReply } from "./revision-writes.ts";
import { createStatement } from "./database.ts";
import { inTransaction } from "./transaction.ts";
import type { Writer } from "./writer.ts";

/** The caller must keep the database open until all promises of the store have settled. */
export async function createFlowStore(db: DatabaseSync, key: Buffer, writer: Writer): Promise<FlowStore> {
  const selectRevision = createStatement(
    db,
    `SELECT ${summaryColumns}, ${contentColumns} FROM revision JOIN revision_content USING (seq) WHERE rev = ?`,
  );
  const selectCredentials = createStatement(
    db,
    "SELECT credentials FROM revision JOIN revision_content USING (seq) WHERE rev = ?",
  );
  const selectEntry = createStatement(db, `SELECT ${entryColumns} FROM revision WHERE rev = ?`);
  const selectKey = createStatement(
    db,
    "SELECT rev, fingerprint FROM idempotency_key WHERE user = ? AND key = ? AND created_at_ms >= ?",
  );
  const listeners = createListeners<RevisionEvent>();

  function newestRev(): string {
    return selectNewest(db)?.rev ?? "";
  }

  async function read(rev: string): Promise<Revision | undefined> {
    const row = selectRevision.get(rev) as (SummaryRow & ContentRow) | undefined;
    return row && toRevision(row, key);
  }

  async function readNewest(): Promise<Revision> {
    const rev = newestRev();
    const revision = await read(rev);
    if (revision === undefined) {
      throw new Error(`Revision ${rev} was removed from the database.`);
    }
    return revision;
  }

  await insertRoot(db, key);
  // Kept in memory: the directory is locked, so that only this process writes.
  // Read here, so that a wrong key or a damaged document is an error at the start.
  let active = await readNewest();

  function activate(revision: Revision, isOwn: boolean): void {
    if (revision.seq > active.seq) {
      active = revision;
      listeners.notify({ revision, isOwn });
    }
  }

  /** If the thread exits without a reply, the revision may have been written, and only the database shows whether it was. */
  async function write(call: CommitCall): Promise<CommitReply> {
    try {
      return await writer.commit(call);
    } catch (error) {
      const newest = selectNewest(db);
      if (newest?.rev === call.rev) {
        return { kind: "committed", ...newest };
      }
      throw error;
    }
  }

  /** Reads the active revision first, since a process that ignores the lock may have written it. */
  async function rejectMismatch(): Promise<never> {
    if (newestRev() !== active.rev) {
      activate(await readNewest(), false);
    }
    throw versionMismatch(active.rev);
  }

  return {
    active: () => active,

    async find(rev) {
      return rev === active.rev ? active : read(rev);
    },

    async findCredentials(rev) {
      const row = selectCredentials.get(rev) as Pick<ContentRow, "credentials"> | undefined;
      return row && openCredentials(key, rev, row.credentials);
    },

    async findEntry(rev) {
      const row = selectEntry.get(rev) as EntryRow | undefined;
      return row && toEntry(row);
    },

    async list({ limit, before = Number.MAX_SAFE_INTEGER, filter = {} }) {
      const { condition, parameters } = compileFilter(filter);
      const rows = db
        .prepare(`SELECT ${entryColumns} FROM revision WHERE seq < :before${condition} ORDER BY seq DESC LIMIT :limit`)
        .all({ ...parameters, before, limit: limit + 1 }) as EntryRow[];
      return toPage(rows, limit);
    },

    async commit(draft, signal) {
      // The thread checks that too; for most mismatches, this saves the compression.
      if (draft.parent !== newestRev() && draft.idempotencyKey === undefined) {
        return rejectMismatch();
      }
      const call = await toCommitCall(draft, key);
      signal?.throwIfAborted();
      const written = await write(call);
      if (written.kind === "mismatch") {
        return rejectMismatch();
      }
      if (written.kind === "repeated") {
        throw new RepeatedRequest(written.rev, written.fingerprint);
      }
      const revision = toCommitted(draft, call, written);
      activate(revision, true);
      return revision;
    },

    async findRepeated(by, key) {
      const row = selectKey.get(by ?? "", key, Date.now() - keyLifetimeMs) as Repeated | undefined;
      return row && new RepeatedRequest(row.rev, row.fingerprint);
    },

    async update(rev, change, entry, maxPinned) {
      const row = await writer.update({ rev, columns: toStateColumns(change), entry, maxPinned });
      return row && toEntry(row);
    },

    prune: (retention) => pruneInBatches(() => writer.prune(retention)),

    async reload() {
      const revision = await readNewest();
      activate(revision, false);
      return revision;
    },

    // Only this process commits.
    async catchUp() {},

    onRevision: (listener) => listeners.add(listener),
  };
}

/** Inserts the first revision, without flows, into an empty table. */
async function insertRoot(db: DatabaseSync, key: Buffer): Promise<void> {
  if (selectNewest(db) !== undefined) {
    return;
  }
  const { idempotencyKey: _, ...row } = await toCommitCall(rootDraft, key);
  const root: RevisionRow = { ...row, parent: null, seq: 1, committed_at_ms: Date.now() };
  inTransaction(db, () => {
    if (selectNewest(db) === undefined) {
      insertRevision(db, root);
    }
  });
}

/** Translates a filter to conditions, each of which begins with AND, and their parameters. */
export function compileFilter({ by, deploymentType, outcome, pinned, fromMs, untilMs }: RevisionFilter): {
  readonly condition: string;
  readonly parameters: Readonly<Record<string, string | number>>;
} {
  const terms = [
    ["deployed_by = :by", "by", by],
    ["deployment_type = :deploymentType", "deploymentType", deploymentType],
    ["outcome = :outcome", "outcome", outcome],
    ["pinned = :pinned", "pinned", pinned === undefined ? undefined : Number(pinned)],
    ["committed_at_ms >= :fromMs", "fromMs", fromMs],
    ["committed_at_ms < :untilMs", "untilMs", untilMs],
  ] as const;
  const given = terms.filter(([, , value]) => value !== undefined);
  return {
    condition: given.map(([term]) => ` AND ${term}`).join(""),
    parameters: Object.fromEntries(given.map(([, name, value]) => [name, value as string | number])),
  };
}
