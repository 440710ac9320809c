import type { KeptCredentials } from "../flows/configuration.ts";
import { parseDocument } from "../flows/document.ts";
import { systemOrigin } from "./audit-chain.ts";
import type { AuditRecord } from "./audit-store.ts";
import { compress, decompress } from "./compression.ts";
import type { RevisionDraft } from "./flow-store.ts";
import { createRev } from "./rev.ts";
import { describeDeployment, digestRevision, formatRemoved, hashFlows } from "./revision-digest.ts";
import { type ContentRow, type RevisionRow, type StateRow, type SummaryRow, toSummary } from "./revision-row.ts";
import type { Revision } from "./revision.ts";
import { openCredentials, sealCredentials } from "./seal.ts";

/** A revision without the values that are assigned when it is written. */
export type CommitCall = Omit<RevisionRow, keyof AssignedColumns> & {
  readonly idempotencyKey: UsedKey | undefined;
};

/** A change of a revision. */
export type UpdateCall = {
  readonly rev: string;
  readonly columns: Partial<StateRow>;
  readonly entry: AuditRecord | undefined;
  readonly maxPinned: number | undefined;
};

/** `user` is empty for requests that are not authenticated. */
export type UsedKey = { readonly user: string; readonly key: string; readonly fingerprint: Uint8Array };

/** The revision that the first request with an idempotency key made, and the hash of that request. */
export type Repeated = { readonly rev: string; readonly fingerprint: Uint8Array };

/** How long the key of a commit can't be used for another one. */
export const keyLifetimeMs = 24 * 60 * 60_000;

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
export async function toCommitCall(draft: RevisionDraft, key: Buffer): Promise<CommitCall> {
  const rev = createRev();
  const { by, idempotencyKey, flows, credentials } = draft;
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
    node_count: flows.count,
    size_bytes: flows.json.length,
    message: draft.message ?? null,
    probation_ms: draft.probationMs ?? null,
    idempotencyKey: idempotencyKey && { user: by ?? "", ...idempotencyKey },
    flows: await compress(flows.json),
    credentials: sealCredentials(key, rev, credentials),
    kept: JSON.stringify(Array.from(draft.kept, ([id, { type, rev, names }]) => [id, type, rev, names])),
  };
}

/** What the database assigns to a revision when it is written. */
export type AssignedColumns = Pick<SummaryRow, "seq" | "committed_at_ms">;

/** The revision of a draft that was written. Frozen. */
export function toCommitted(
  { flows, credentials, kept }: RevisionDraft,
  call: CommitCall,
  { seq, committed_at_ms }: AssignedColumns,
): Revision {
  return Object.freeze({ ...toSummary({ ...call, seq, committed_at_ms }), flows, credentials, kept });
}

/** Decrypts the credentials with `key`, and decompresses the flows. The result is frozen. */
export async function toRevision(row: SummaryRow & ContentRow, key: Buffer): Promise<Revision> {
  return Object.freeze({
    ...toSummary(row),
    credentials: openCredentials(key, row.rev, row.credentials),
    flows: parseDocument(await decompress(row.flows), row.node_count),
    kept: parseKept(row.kept),
  });
}

/** Older versions wrote no names. */
function parseKept(json: string): KeptCredentials {
  const entries = JSON.parse(json) as [id: string, type: string, rev: string, names?: string[]][];
  return new Map(entries.map(([id, type, rev, names = []]) => [id, { type, rev, names }]));
}

/** The audit entry of a commit. */
export function toAuditRecord(row: SummaryRow & ContentRow): AuditRecord {
  const { by, token, address, protocol, requestId } = toSummary(row);
  return {
    kind: "deployment",
    origin: { by, token, address, protocol, requestId },
    subject: row.rev,
    detail: describeDeployment(row),
    digest: digestRevision(row, hashFlows(row.flows)),
  };
}

/** The audit entry of revisions that the retention has removed. */
export function toPruneRecord(revs: readonly string[]): AuditRecord {
  return { kind: "revisions_pruned", origin: systemOrigin, detail: formatRemoved(revs), count: revs.length };
}
