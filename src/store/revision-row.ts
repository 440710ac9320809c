import type { DeploymentType } from "../flows/configuration.ts";
import type { Origin } from "./origin.ts";
import type { RevisionPage } from "./flow-store.ts";
import type { RevisionCause, RevisionEntry, RevisionOutcome, RevisionSummary } from "./revision.ts";

// The tables of all adapters have the same columns.

/** The columns of the table `revision` that never change. */
export type SummaryRow = {
  seq: number;
  rev: string;
  parent: string | null;
  committed_at_ms: number;
  deployed_by: string | null;
  token_id: string | null;
  token_name: string | null;
  client_address: string | null;
  protocol: string | null;
  request_id: string | null;
  deployment_type: DeploymentType;
  cause: RevisionCause;
  restored_rev: string | null;
  node_count: number;
  size_bytes: number;
};

export type StateRow = {
  message: string | null;
  pinned: number;
  outcome: RevisionOutcome["state"];
  outcome_message: string | null;
  /** A JSON array of strings. */
  missing_types: string;
  probation_ms: number | null;
};

export type EntryRow = SummaryRow & StateRow;

/** The table `revision_content`. */
export type ContentRow = {
  flows: Uint8Array;
  credentials: Uint8Array;
  /** `Revision.kept` as a JSON array of arrays: node id, type, rev, names. */
  kept: string;
};

export const contentColumns = "flows, credentials, kept";

/** A revision as it is inserted. */
export type RevisionRow = SummaryRow & Pick<StateRow, "message" | "probation_ms"> & ContentRow;

export const summaryColumns =
  "seq, rev, parent, committed_at_ms, deployed_by, client_address, protocol, request_id, deployment_type, cause, " +
  "restored_rev, node_count, size_bytes, token_id, token_name";
export const entryColumns = `${summaryColumns}, message, pinned, outcome, outcome_message, missing_types, probation_ms`;

export function toSummary(row: SummaryRow): RevisionSummary {
  return {
    rev: row.rev,
    parent: row.parent ?? undefined,
    seq: row.seq,
    committedAtMs: row.committed_at_ms,
    by: row.deployed_by ?? undefined,
    token: toTokenOrigin(row),
    address: row.client_address ?? undefined,
    protocol: row.protocol ?? undefined,
    requestId: row.request_id ?? undefined,
    deploymentType: row.deployment_type,
    cause: row.cause,
    restoredRev: row.restored_rev ?? undefined,
    nodeCount: row.node_count,
    sizeBytes: row.size_bytes,
  };
}

/** The columns are undefined in logs with the schema of an older version. */
export function toTokenOrigin({ token_id: id, token_name: name }: Partial<SummaryRow>): Origin["token"] {
  return id === null || id === undefined ? undefined : { id, name: name ?? undefined };
}

export function toEntry(row: EntryRow): RevisionEntry {
  return {
    ...toSummary(row),
    message: row.message ?? undefined,
    pinned: row.pinned !== 0,
    outcome: {
      state: row.outcome,
      message: row.outcome_message ?? undefined,
      missingTypes: JSON.parse(row.missing_types) as string[],
    },
    probationMs: row.probation_ms ?? undefined,
  };
}

/** The first `limit` of the rows, which are one more if there is a next page. */
export function toPage(rows: readonly EntryRow[], limit: number): RevisionPage {
  const revisions = rows.slice(0, limit).map(toEntry);
  return { revisions, next: rows.length > limit ? revisions.at(-1)?.seq : undefined };
}

/** The columns of the properties that `change` contains. */
export function toStateColumns(change: Partial<RevisionEntry>): Partial<StateRow> {
  const { pinned, outcome } = change;
  return {
    ...("message" in change && { message: change.message ?? null }),
    ...(pinned !== undefined && { pinned: pinned ? 1 : 0 }),
    ...(outcome !== undefined && {
      outcome: outcome.state,
      outcome_message: outcome.message ?? null,
      missing_types: JSON.stringify(outcome.missingTypes),
    }),
    ...("probationMs" in change && { probation_ms: change.probationMs ?? null }),
  };
}
