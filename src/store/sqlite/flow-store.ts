import type { DatabaseSync } from "node:sqlite";
import type { DeploymentType } from "../../flows/configuration.ts";
import { parseDocument } from "../../flows/document.ts";
import { createListeners } from "../listeners.ts";
import { createRev } from "../rev.ts";
import { openCredentials, sealCredentials } from "../seal.ts";
import type { FlowStore, Revision, RevisionInfo, RevisionNotice } from "../store.ts";
import { versionMismatch } from "../version-mismatch.ts";
import { compress, decompress } from "./compression.ts";
import { inTransaction } from "./transaction.ts";

const infoColumns = "seq, rev, parent, committed_at_ms, deployed_by, deployment_type";

/** The caller keeps the database open until every promise of the store has settled. */
export async function createFlowStore(db: DatabaseSync, key: Buffer): Promise<FlowStore> {
  const selectNewest = db.prepare("SELECT seq, rev FROM revision ORDER BY seq DESC LIMIT 1");
  const selectPage = db.prepare(`SELECT ${infoColumns} FROM revision WHERE seq < ? ORDER BY seq DESC LIMIT ?`);
  const selectRevision = db.prepare(`SELECT ${infoColumns}, flows, credentials FROM revision WHERE rev = ?`);
  const insertRevision = db.prepare(
    `INSERT INTO revision (${infoColumns}, flows, credentials) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const listeners = createListeners<RevisionNotice>();

  function newest(): Newest {
    return selectNewest.get() as Newest;
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
    const { rev } = newest();
    const revision = await read(rev);
    if (revision === undefined) {
      throw new Error(`Revision ${rev} was removed from the database.`);
    }
    return revision;
  }

  const rootRev = createRev();
  const root = [await compress(Buffer.from("[]")), sealCredentials(key, rootRev, new Map())] as const;
  inTransaction(db, () => {
    if (selectNewest.get() === undefined) {
      insertRevision.run(1, rootRev, null, Date.now(), null, "full", ...root);
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

  /** The database settles races, also with a process that ignores the lock. */
  async function refuse(): Promise<never> {
    if (newest().rev !== active.rev) {
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
      if (parent !== newest().rev) {
        return refuse();
      }
      const rev = createRev();
      const packed = await compress(flows.json);
      const sealed = sealCredentials(key, rev, credentials);
      signal?.throwIfAborted();
      const revision = inTransaction(db, (): Revision | undefined => {
        const before = newest();
        if (parent !== before.rev) {
          return undefined;
        }
        const info = { rev, parent, seq: before.seq + 1, committedAtMs: Date.now(), by, deploymentType };
        insertRevision.run(info.seq, rev, parent, info.committedAtMs, by ?? null, deploymentType, packed, sealed);
        return Object.freeze({ ...info, flows, credentials });
      });
      if (revision === undefined) {
        return refuse();
      }
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

type Newest = { seq: number; rev: string };

type InfoRow = Newest & {
  parent: string | null;
  committed_at_ms: number;
  deployed_by: string | null;
  deployment_type: DeploymentType;
};

type RevisionRow = InfoRow & { flows: Uint8Array; credentials: Uint8Array };

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
