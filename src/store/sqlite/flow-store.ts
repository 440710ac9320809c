import type { DatabaseSync } from "node:sqlite";
import { parseDocument } from "../../flows/document.ts";
import { createListeners } from "../listeners.ts";
import { createRev } from "../rev.ts";
import { openCredentials, sealCredentials } from "../seal.ts";
import type { FlowStore, Revision, RevisionInfo, RevisionNotice } from "../store.ts";
import { versionMismatch } from "../version-mismatch.ts";
import type { CommitCall, CommitReply } from "./commit-thread.ts";
import { compress, decompress } from "./compression.ts";
import { infoColumns, type InfoRow, insertRevision, type RevisionRow, selectNewest } from "./revision-row.ts";
import { inTransaction } from "./transaction.ts";

/** Commits elsewhere than on the event loop, over a connection of its own. */
export type Committer = { call(draft: CommitCall): Promise<CommitReply> };

/** The caller keeps the database open until every promise of the store has settled. */
export async function createFlowStore(db: DatabaseSync, key: Buffer, committer: Committer): Promise<FlowStore> {
  const selectPage = db.prepare(`SELECT ${infoColumns} FROM revision WHERE seq < ? ORDER BY seq DESC LIMIT ?`);
  const selectRevision = db.prepare(`SELECT ${infoColumns}, flows, credentials FROM revision WHERE rev = ?`);
  const listeners = createListeners<RevisionNotice>();

  function newestRev(): string {
    return selectNewest(db)?.rev ?? "";
  }

  async function read(rev: string): Promise<Revision | undefined> {
    const row = selectRevision.get(rev) as RevisionRow | undefined;
    return (
      row &&
      Object.freeze({
        ...toInfo(row),
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

  // The folder is locked, so this process alone writes: no need to ask the database which revision is the active one.
  // Read here, so that a wrong key or a damaged document shows at the start.
  let active = await readNewest();

  function activate(revision: Revision, isOwn: boolean): void {
    if (revision.seq > active.seq) {
      active = revision;
      listeners.notify({ revision, isOwn });
    }
  }

  /** A thread that died before it answered may have written the revision: nothing then says so but the database. */
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

  /** The database settles races, also with a process that ignores the lock. */
  async function refuse(): Promise<never> {
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
      const rows = selectPage.all(before, limit + 1) as InfoRow[];
      const revisions = rows.slice(0, limit).map(toInfo);
      return { revisions, next: rows.length > limit ? revisions.at(-1)?.seq : undefined };
    },

    async commit({ parent, by, deploymentType, flows, credentials }, signal) {
      if (parent !== newestRev()) {
        return refuse();
      }
      const rev = createRev();
      const draft: CommitCall = {
        rev,
        parent,
        deployed_by: by ?? null,
        deployment_type: deploymentType,
        flows: await compress(flows.json),
        credentials: sealCredentials(key, rev, credentials),
      };
      signal?.throwIfAborted();
      const written = await write(draft);
      if (written === undefined) {
        return refuse();
      }
      const revision = Object.freeze({ ...toInfo({ ...draft, ...written }), flows, credentials });
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

function toInfo(row: InfoRow): RevisionInfo {
  return {
    rev: row.rev,
    parent: row.parent ?? undefined,
    seq: row.seq,
    committedAtMs: row.committed_at_ms,
    by: row.deployed_by ?? undefined,
    deploymentType: row.deployment_type,
  };
}
