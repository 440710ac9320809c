import { promisify } from "node:util";
import { constants, zstdCompress } from "node:zlib";
import type { DeploymentType } from "@flowgate/flows";
import type { ChangedContainer } from "@flowgate/flows/compare";
import type { AuditRecord } from "../audit-store.ts";
import type { CredentialKey } from "../credential-keys.ts";
import { sealText } from "../credentials.ts";
import type {
  ProposalClosing,
  ProposalDraft,
  ProposalEntry,
  ProposalLimits,
  ProposedModule,
} from "../proposal-store.ts";
import { toTokenOrigin } from "./revision-row.ts";

const compress = promisify(zstdCompress);

/** The columns of the table `proposal` that never change. */
export type ProposedRow = {
  id: string;
  base: string;
  proposed_by: string | null;
  token_id: string | null;
  token_name: string | null;
  client_address: string | null;
  protocol: string | null;
  request_id: string | null;
  deployment_type: DeploymentType;
  message: string | null;
  wait_ms: number | null;
  undo_on_failure: number;
  max_errors: number;
  /** A JSON array of objects, in which labels that are undefined are null. */
  changes: string;
  /** A JSON array of objects, in which hashes that are undefined are absent. */
  modules: string;
  digest: string;
  node_count: number;
  size_bytes: number;
};

export type AssignedRow = { seq: number; created_at_ms: number; expires_at_ms: number };

/** All null while the proposal is open. */
export type ClosingRow = {
  closed: ProposalClosing["state"] | null;
  closed_at_ms: number | null;
  closed_by: string | null;
  closed_token_id: string | null;
  closed_token_name: string | null;
  reason: string | null;
  rev: string | null;
};

export type ProposalRow = ProposedRow & AssignedRow & ClosingRow;

export type ProposalContentRow = { flows: Uint8Array; credentials: Uint8Array };

/** Returns the encryption context of a proposal's credentials. It differs from every `rev`, which contains no space. */
export function sealNameOf(id: string): string {
  return `proposal ${id}`;
}

export const proposalColumns =
  "seq, id, base, created_at_ms, expires_at_ms, proposed_by, token_id, token_name, client_address, protocol, request_id, " +
  "deployment_type, message, wait_ms, undo_on_failure, max_errors, changes, modules, digest, node_count, size_bytes, closed, closed_at_ms, " +
  "closed_by, closed_token_id, closed_token_name, reason, rev";

export type InsertProposalCall = {
  readonly row: ProposedRow;
  readonly content: ProposalContentRow;
  readonly lifetimeMs: number;
  readonly entry: AuditRecord;
  readonly limits: ProposalLimits;
};

/** Compresses the flows and encrypts the credentials with `key`. */
export async function toInsertProposalCall(
  draft: ProposalDraft,
  entry: AuditRecord,
  limits: ProposalLimits,
  key: CredentialKey,
): Promise<InsertProposalCall> {
  const { flows, credentials, lifetimeMs } = draft;
  const row: ProposedRow = {
    id: draft.id,
    base: draft.base,
    proposed_by: draft.by ?? null,
    token_id: draft.token?.id ?? null,
    token_name: draft.token?.name ?? null,
    client_address: draft.address ?? null,
    protocol: draft.protocol ?? null,
    request_id: draft.requestId ?? null,
    deployment_type: draft.deploymentType,
    message: draft.message ?? null,
    wait_ms: draft.waitMs ?? null,
    undo_on_failure: draft.undoOnFailure ? 1 : 0,
    max_errors: draft.maxErrors,
    changes: JSON.stringify(draft.changes),
    modules: JSON.stringify(draft.modules),
    digest: draft.digest,
    node_count: flows.count,
    size_bytes: flows.json.length,
  };
  const content: ProposalContentRow = {
    flows: await compress(flows.json, { params: { [constants.ZSTD_c_checksumFlag]: 1 } }),
    credentials: sealText(key, sealNameOf(draft.id), credentials),
  };
  return { row, content, lifetimeMs, entry, limits };
}

export function toProposalEntry(row: ProposalRow): ProposalEntry {
  return {
    id: row.id,
    seq: row.seq,
    base: row.base,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
    by: row.proposed_by ?? undefined,
    token: toTokenOrigin({ token_id: row.token_id, token_name: row.token_name }),
    address: row.client_address ?? undefined,
    protocol: row.protocol ?? undefined,
    requestId: row.request_id ?? undefined,
    deploymentType: row.deployment_type,
    message: row.message ?? undefined,
    waitMs: row.wait_ms ?? undefined,
    undoOnFailure: row.undo_on_failure !== 0,
    maxErrors: row.max_errors,
    changes: parseChanges(row.changes),
    modules: parseModules(row.modules),
    digest: row.digest,
    nodeCount: row.node_count,
    sizeBytes: row.size_bytes,
    closing: toClosing(row),
  };
}

function parseChanges(json: string): ProposalEntry["changes"] {
  const changes = JSON.parse(json) as (Pick<ChangedContainer, "id" | "kind"> & { labels: (string | null)[] })[];
  return changes.map(({ labels, ...change }) => ({ ...change, labels: labels.map((label) => label ?? undefined) }));
}

function parseModules(json: string): ProposalEntry["modules"] {
  const modules = JSON.parse(json) as (Pick<ProposedModule, "name" | "version"> & Partial<ProposedModule>)[];
  return modules.map(({ name, version, integrity }) => ({ name, version, integrity }));
}

function toClosing(row: ProposalRow): ProposalClosing | undefined {
  return row.closed === null
    ? undefined
    : {
        state: row.closed,
        atMs: row.closed_at_ms ?? 0,
        by: row.closed_by ?? undefined,
        token: toTokenOrigin({ token_id: row.closed_token_id, token_name: row.closed_token_name }),
        reason: row.reason ?? undefined,
        rev: row.rev ?? undefined,
      };
}
