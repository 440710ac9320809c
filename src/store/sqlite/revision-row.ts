import type { DatabaseSync } from "node:sqlite";
import type { DeploymentType } from "../../flows/configuration.ts";

/** A row of the table `revision`, without its documents. */
export type InfoRow = {
  seq: number;
  rev: string;
  parent: string | null;
  committed_at_ms: number;
  deployed_by: string | null;
  deployment_type: DeploymentType;
};

export type RevisionRow = InfoRow & { flows: Uint8Array; credentials: Uint8Array };

export const infoColumns = "seq, rev, parent, committed_at_ms, deployed_by, deployment_type";

export function insertRevision(db: DatabaseSync, row: RevisionRow): void {
  db.prepare(`INSERT INTO revision (${infoColumns}, flows, credentials) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`).run(
    row.seq,
    row.rev,
    row.parent,
    row.committed_at_ms,
    row.deployed_by,
    row.deployment_type,
    row.flows,
    row.credentials,
  );
}

export function selectNewest(db: DatabaseSync): InfoRow | undefined {
  return db.prepare(`SELECT ${infoColumns} FROM revision ORDER BY seq DESC LIMIT 1`).get() as InfoRow | undefined;
}
