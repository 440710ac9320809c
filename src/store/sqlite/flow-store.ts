import type { DatabaseSync } from "node:sqlite";
import type { DeploymentType } from "../../flows/configuration.ts";
import { packFlows, unpackFlows } from "../flows-document.ts";
import { createRev } from "../rev.ts";
import { openCredentials, sealCredentials } from "../seal.ts";
import type { FlowStore, Revision } from "../store.ts";
import { versionMismatch } from "../version-mismatch.ts";
import { inTransaction } from "./transaction.ts";

/** The caller keeps the database open until every promise of the store has settled. */
export async function createFlowStore(db: DatabaseSync, key: Buffer): Promise<Omit<FlowStore, keyof AsyncDisposable>> {
  const selectNewest = db.prepare("SELECT seq, rev FROM revision ORDER BY seq DESC LIMIT 1");
  const selectRevision = db.prepare(
    "SELECT seq, rev, committed_at_ms, deployed_by, deployment_type, flows, credentials FROM revision WHERE rev = ?",
  );
  const insertRevision = db.prepare(
    `INSERT INTO revision (seq, rev, parent, committed_at_ms, deployed_by, deployment_type, flows, credentials)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );

  function newest(): Newest {
    return selectNewest.get() as Newest;
  }

  async function read(rev: string): Promise<Revision> {
    const row = selectRevision.get(rev) as RevisionRow;
    return {
      rev: row.rev,
      seq: row.seq,
      committedAtMs: row.committed_at_ms,
      by: row.deployed_by ?? undefined,
      deploymentType: row.deployment_type,
      credentials: openCredentials(key, row.rev, row.credentials),
      flows: await unpackFlows(row.flows),
    };
  }

  const rootRev = createRev();
  const root = [await packFlows([]), sealCredentials(key, rootRev, new Map())] as const;
  inTransaction(db, () => {
    if (selectNewest.get() === undefined) {
      insertRevision.run(1, rootRev, null, Date.now(), null, "full", ...root);
    }
  });

  // A wrong key or a damaged document shows now, not at the first request.
  let cached = await read(newest().rev);
  const readings = new Map<string, Promise<Revision>>();

  return {
    async active() {
      const { rev } = newest();
      if (cached.rev === rev) {
        return cached;
      }
      // Another process has deployed: all who ask while it is read get the same object.
      const reading = readings.get(rev) ?? read(rev).finally(() => readings.delete(rev));
      readings.set(rev, reading);
      const revision = await reading;
      cached = cached.seq < revision.seq ? revision : cached;
      return revision;
    },

    async commit({ parent, by, deploymentType, flows, credentials }, signal) {
      assertActive(parent, newest());
      const rev = createRev();
      const packed = await packFlows(flows);
      const sealed = sealCredentials(key, rev, credentials);
      signal?.throwIfAborted();
      const revision = inTransaction(db, (): Revision => {
        const active = newest();
        assertActive(parent, active);
        const made = { rev, seq: active.seq + 1, committedAtMs: Date.now(), by, deploymentType, flows, credentials };
        insertRevision.run(made.seq, rev, parent, made.committedAtMs, by ?? null, deploymentType, packed, sealed);
        return made;
      });
      cached = revision;
      return revision;
    },

    async reload() {
      return read(newest().rev);
    },
  };
}

type Newest = { seq: number; rev: string };

type RevisionRow = Newest & {
  committed_at_ms: number;
  deployed_by: string | null;
  deployment_type: DeploymentType;
  flows: Uint8Array;
  credentials: Uint8Array;
};

function assertActive(parent: string, active: Newest): void {
  if (parent !== active.rev) {
    throw versionMismatch(active.rev);
  }
}
