import { hash, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import { constants, zstdCompress, zstdDecompress } from "node:zlib";
import { type DeploymentType, type KeptCredentials, parseDocument } from "@flowgate/flows";
import { type Origin, type AuditRecord, systemOrigin } from "../audit-store.ts";
import type { RevisionDraft } from "../flow-store.ts";
import type { RevisionModule } from "../module-store.ts";
import type { DraftWrites } from "../node-credentials.ts";
import type { RevisionCause, RevisionEntry, RevisionOutcome, RevisionSummary, Revision } from "../revision.ts";
import type { CredentialKey, CredentialKeys } from "../credential-keys.ts";
import { openCredentials, sealCredentials } from "../credentials.ts";
import { toPortable } from "./query.ts";
import { formatSubmitted } from "./submitted-nodes.ts";

// The tables of all adapters have the same columns.

const compress = promisify(zstdCompress);
export const decompress = promisify(zstdDecompress);

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
} & ApprovalRow;

/** `RevisionSummary.approval`. */
type ApprovalRow = {
  proposal_id: string | null;
  approved_by: string | null;
  approver_token_id: string | null;
  approver_token_name: string | null;
};

/** `RevisionEntry.errorLimit`. */
type ErrorLimitRow = { error_limit_ms: number | null; max_errors: number | null };

export type StateRow = {
  message: string | null;
  pinned: number;
  outcome: RevisionOutcome["state"];
  outcome_message: string | null;
  /** A JSON array of strings. */
  missing_types: string;
  probation_ms: number | null;
  restarts: number;
};

export type EntryRow = SummaryRow & StateRow & ErrorLimitRow;

/** The table `revision_content`. */
export type ContentRow = {
  flows: Uint8Array;
  credentials: Uint8Array;
  /** `Revision.kept` as a JSON array of arrays: node id, type, rev, names. */
  kept: string;
};

export const contentColumns = "flows, credentials, kept";

export type RevisionRow = SummaryRow &
  ErrorLimitRow &
  Pick<StateRow, "message" | "probation_ms"> &
  ContentRow & {
    module_set_seq: number | null;
    /** See `formatSubmitted`. */
    submitted: string;
  };

export const summaryColumns =
  "seq, rev, parent, committed_at_ms, deployed_by, client_address, protocol, request_id, deployment_type, cause, " +
  "restored_rev, node_count, size_bytes, token_id, token_name, proposal_id, approved_by, approver_token_id, approver_token_name";
export const entryColumns = `${summaryColumns}, message, pinned, outcome, outcome_message, missing_types, probation_ms, restarts, error_limit_ms, max_errors`;

function toSummary(row: SummaryRow): RevisionSummary {
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
    approval: toApproval(row),
    nodeCount: row.node_count,
    sizeBytes: row.size_bytes,
  };
}

export function toTokenOrigin({
  token_id: id,
  token_name: name,
}: Pick<SummaryRow, "token_id" | "token_name">): Origin["token"] {
  return id === null ? undefined : { id, name: name ?? undefined };
}

function toApproval(row: ApprovalRow): RevisionSummary["approval"] {
  return row.proposal_id === null
    ? undefined
    : {
        proposalId: row.proposal_id,
        by: row.approved_by ?? undefined,
        token: toTokenOrigin({ token_id: row.approver_token_id, token_name: row.approver_token_name }),
      };
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
    restarts: row.restarts,
    errorLimit: row.error_limit_ms === null ? undefined : { forMs: row.error_limit_ms, maxErrors: row.max_errors ?? 0 },
  };
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
    ...(change.restarts !== undefined && { restarts: change.restarts }),
  };
}

/** A revision without the values that are assigned when it is written. */
export type CommitCall = Omit<RevisionRow, keyof AssignedColumns | "module_set_seq"> &
  Pick<RevisionDraft, "approval" | "unapproved"> & {
    /** Undefined: they are not known. */
    readonly modules: readonly RevisionModule[] | undefined;
    readonly idempotencyKey: UsedKey | undefined;
    readonly writes: Omit<DraftWrites, "submitted">;
  };

const noWrites: DraftWrites = { seq: 0, submitted: new Set(), claimed: [], replacesLater: true };

/** `user` is empty for requests that are not authenticated. */
type UsedKey = { readonly user: string; readonly key: string; readonly fingerprint: Uint8Array };

/** The first revision of a new store. */
export const rootDraft: RevisionDraft = {
  parent: "",
  by: undefined,
  address: undefined,
  protocol: undefined,
  requestId: undefined,
  deploymentType: "full",
  cause: "deployment",
  restoredRev: undefined,
  flows: parseDocument(Buffer.from("[]")),
  credentials: new Map(),
  kept: new Map(),
  message: undefined,
  probationMs: undefined,
  idempotencyKey: undefined,
};

/** Compresses the flows and encrypts the credentials with `key`. */
export async function toCommitCall(draft: RevisionDraft, key: CredentialKey): Promise<CommitCall> {
  // Random, so that ids are unique across processes. Does not begin with a hyphen, like the flags of a command line.
  const rev = randomBytes(16).toString("base64url").replace(/^-/, "0");
  const { by, idempotencyKey, flows, credentials, approval, unapproved } = draft;
  const { submitted, ...writes } = draft.writes ?? noWrites;
  return {
    rev,
    parent: draft.parent,
    deployed_by: by ?? null,
    token_id: draft.token?.id ?? null,
    token_name: draft.token?.name ?? null,
    client_address: draft.address ?? null,
    protocol: draft.protocol ?? null,
    request_id: draft.requestId ?? null,
    deployment_type: draft.deploymentType,
    cause: draft.cause,
    restored_rev: draft.restoredRev ?? null,
    proposal_id: approval?.proposalId ?? null,
    approved_by: approval?.origin.by ?? null,
    approver_token_id: approval?.origin.token?.id ?? null,
    approver_token_name: approval?.origin.token?.name ?? null,
    node_count: flows.count,
    size_bytes: flows.json.length,
    message: draft.message ?? null,
    probation_ms: draft.probationMs ?? null,
    error_limit_ms: draft.errorLimit?.forMs ?? null,
    max_errors: draft.errorLimit?.maxErrors ?? null,
    modules: draft.modules,
    idempotencyKey: idempotencyKey && { user: by ?? "", ...idempotencyKey },
    approval,
    unapproved,
    writes,
    submitted: formatSubmitted(submitted),
    flows: await compress(flows.json, { params: { [constants.ZSTD_c_checksumFlag]: 1 } }),
    credentials: sealCredentials(key, rev, credentials),
    kept: JSON.stringify(Array.from(draft.kept, ([id, { type, rev, names }]) => [id, type, rev, names])),
  };
}

/** The values that the database assigns when a revision is written. */
export type AssignedColumns = Pick<SummaryRow, "seq" | "committed_at_ms">;

/** The revision of a draft that was written. Frozen. */
export function toCommitted(
  { flows, credentials, kept }: RevisionDraft,
  call: CommitCall,
  { seq, committed_at_ms }: AssignedColumns,
): Revision {
  return Object.freeze({ ...toSummary({ ...call, seq, committed_at_ms }), flows, credentials, kept });
}

/** Decrypts the credentials, and decompresses the flows. The result is frozen. */
export async function toRevision(row: SummaryRow & ContentRow, keys: CredentialKeys): Promise<Revision> {
  return Object.freeze({
    ...toSummary(row),
    credentials: openCredentials(keys, row.rev, row.credentials),
    flows: parseDocument(await decompress(row.flows), row.node_count),
    kept: parseKept(row.kept),
  });
}

/** Older versions wrote no names. */
function parseKept(json: string): KeptCredentials {
  const entries = JSON.parse(json) as [id: string, type: string, rev: string, names?: string[]][];
  return new Map(entries.map(([id, type, rev, names = []]) => [id, { type, rev, names }]));
}

/** The audit entries of a commit. The deployment's has the author, the approval's the approver. */
export function toAuditRecords(
  row: SummaryRow & ContentRow,
  { approval, unapproved }: Pick<CommitCall, "approval" | "unapproved">,
): AuditRecord[] {
  const { by, token, address, protocol, requestId } = toSummary(row);
  const origin = { by, token, address, protocol, requestId };
  const records: AuditRecord[] = [];
  if (approval !== undefined) {
    const { proposalId: subject, digest } = approval;
    const detail = `revision ${row.rev}, proposed by ${by ?? ""}`;
    records.push({ kind: "proposal_approved", origin: approval.origin, subject, detail, digest });
  }
  if (unapproved !== undefined) {
    records.push({ kind: "unapproved_deployment", origin, subject: row.rev, detail: unapproved });
  }
  const digest = digestRevision(row, hashFlows(row.flows));
  records.push({ kind: "deployment", origin, subject: row.rev, detail: describeDeployment(row), digest });
  return records;
}

/** The audit entry of revisions that the retention has removed. */
export function toPruneRecord(revs: readonly string[]): AuditRecord {
  return { kind: "revisions_pruned", origin: systemOrigin, detail: revs.join(" "), count: revs.length };
}

/**
 * The digest of a revision in its audit entry: the SHA-256 of its fields, a period, and the SHA-256 of its flows as
 * they are stored, both in hexadecimal. The fields are hashed as the UTF-8 encoding of a JSON array without spaces;
 * absent ones are null. If a proposal was deployed, its id and its approver follow. Message, pin and outcome are not
 * part of it, since they may change. Nor are the credentials: they are encrypted again when a store is migrated, and
 * their encryption detects changes. Must never change.
 */
export function digestRevision(row: SummaryRow, flowsHash: string): string {
  const fields = [
    row.seq,
    row.rev,
    row.parent,
    row.committed_at_ms,
    row.deployed_by,
    row.token_id,
    row.token_name,
    row.client_address,
    row.protocol,
    row.request_id,
    row.deployment_type,
    row.cause,
    row.restored_rev,
    row.node_count,
    row.size_bytes,
  ];
  if (row.proposal_id !== null) {
    fields.push(row.proposal_id, row.approved_by, row.approver_token_id, row.approver_token_name);
  }
  // The same text from either database.
  const stored = fields.map((value) => toPortable(typeof value === "string" ? value.toWellFormed() : value));
  return `${hash("sha256", JSON.stringify(stored))}.${flowsHash}`;
}

export function hashFlows(flows: Uint8Array): string {
  return hash("sha256", flows);
}

/** The `detail` of the entry about a deployment. */
export function describeDeployment(row: SummaryRow): string {
  const { cause, deployment_type: type, proposal_id: proposal, approved_by: approver } = row;
  const made = cause === "deployment" ? type : `${cause}, ${type}`;
  return proposal === null ? made : `${made}, proposal ${proposal} approved by ${approver ?? ""}`;
}
