import type { DatabaseSync } from "node:sqlite";
import type { DeploymentType } from "../../flows/configuration.ts";

/** The columns of the table `revision`, without flows and credentials. */
export type SummaryRow = {
  seq: number;
  rev: string;
  parent: string | null;
  committed_at_ms: number;
  deployed_by: string | null;
  deployment_type: DeploymentType;
};

export type RevisionRow = SummaryRow & { flows: Uint8Array; credentials: Uint8Array };

export const summaryColumns = "seq, rev, parent, committed_at_ms, deployed_by, deployment_type";

export function insertRevision(db: DatabaseSync, row: RevisionRow): void {
  db.prepare(`INSERT INTO revision (${summaryColumns}, flows, credentials) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`).run(
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

export function selectNewest(db: DatabaseSync): SummaryRow | undefined {
  return db.prepare(`SELECT ${summaryColumns} FROM revision ORDER BY seq DESC LIMIT 1`).get() as SummaryRow | undefined;
}
