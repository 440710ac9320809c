import type { DatabaseSync } from "node:sqlite";
import { parseDocument } from "../../flows/document.ts";
import { compress, decompress } from "../compression.ts";
import { versionMismatch } from "../errors.ts";
import { createListeners } from "../listeners.ts";
import { createRev } from "../rev.ts";
import { openCredentials, sealCredentials } from "../seal.ts";
import type { FlowStore, Revision, RevisionEvent, RevisionSummary } from "../store.ts";
import type { CommitCall, CommitReply } from "./commit-thread.ts";
import { insertRevision, type RevisionRow, selectNewest, summaryColumns, type SummaryRow } from "./revision-row.ts";
import { inTransaction } from "./transaction.ts";

/** Writes revisions on a thread with a separate connection. */
export type Committer = { call(draft: CommitCall): Promise<CommitReply> };

/** The caller must keep the database open until all promises of the store have settled. */
export async function createFlowStore(db: DatabaseSync, key: Buffer, committer: Committer): Promise<FlowStore> {
  const selectPage = db.prepare(`SELECT ${summaryColumns} FROM revision WHERE seq < ? ORDER BY seq DESC LIMIT ?`);
  const selectRevision = db.prepare(`SELECT ${summaryColumns}, flows, credentials FROM revision WHERE rev = ?`);
  const listeners = createListeners<RevisionEvent>();

  function newestRev(): string {
    return selectNewest(db)?.rev ?? "";
  }

  async function read(rev: string): Promise<Revision | undefined> {
    const row = selectRevision.get(rev) as RevisionRow | undefined;
    return (
      row &&
      Object.freeze({
        ...toSummary(row),
        credentials: openCredentials(key, row.rev, row.credentials),
        flows: parseDocument(await decompress(row.flows)),
      })
    );
  }

  async function readNewest(): Promise<Revision> {
    const rev = newestRev();
    const revision = await read(rev);
    if (revision === undefined) {
      throw new Error(`Revision ${rev} was removed from the database.`);
    }
    return revision;
  }

  const rootRev = createRev();
  const root: RevisionRow = {
    seq: 1,
    rev: rootRev,
    parent: null,
    committed_at_ms: Date.now(),
    deployed_by: null,
    deployment_type: "full",
    flows: await compress(Buffer.from("[]")),
    credentials: sealCredentials(key, rootRev, new Map()),
  };
  inTransaction(db, () => {
    if (selectNewest(db) === undefined) {
      insertRevision(db, root);
    }
  });

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
  async function write(draft: CommitCall): Promise<CommitReply> {
    try {
      return await committer.call(draft);
    } catch (error) {
      const newest = selectNewest(db);
      if (newest?.rev === draft.rev) {
        return newest;
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

    async list({ limit, before = Number.MAX_SAFE_INTEGER }) {
      const rows = selectPage.all(before, limit + 1) as SummaryRow[];
      const revisions = rows.slice(0, limit).map(toSummary);
      return { revisions, next: rows.length > limit ? revisions.at(-1)?.seq : undefined };
    },

    async commit({ parent, by, origin, deploymentType, flows, credentials }, signal) {
      if (parent !== newestRev()) {
        return rejectMismatch();
      }
      const rev = createRev();
      const draft: CommitCall = {
        rev,
        parent,
        deployed_by: by ?? null,
        deployment_type: deploymentType,
        flows: await compress(flows.json),
        credentials: sealCredentials(key, rev, credentials),
        origin: origin ?? { by, address: undefined, protocol: undefined, requestId: undefined },
      };
      signal?.throwIfAborted();
      const written = await write(draft);
      if (written === undefined) {
        return rejectMismatch();
      }
      const revision = Object.freeze({ ...toSummary({ ...draft, ...written }), flows, credentials });
      activate(revision, true);
      return revision;
    },

    async reload() {
      const revision = await readNewest();
      activate(revision, false);
      return revision;
    },

    onRevision: (listener) => listeners.add(listener),
  };
}

function toSummary(row: SummaryRow): RevisionSummary {
  return {
    rev: row.rev,
    parent: row.parent ?? undefined,
    seq: row.seq,
    committedAtMs: row.committed_at_ms,
    by: row.deployed_by ?? undefined,
    deploymentType: row.deployment_type,
  };
}
