import { promisify } from "node:util";
import { constants, zstdCompress } from "node:zlib";
import { FlowgateError } from "../../errors.ts";
import type { DeploymentType } from "../../flows/configuration.ts";
import type { ChangedContainer } from "../../flows/diff/changed-containers.ts";
import { parseDocument } from "../../flows/document.ts";
import type { AuditRecord, Origin } from "../audit-store.ts";
import { openText, sealText } from "../credentials.ts";
import { versionMismatch } from "../flow-store.ts";
import type {
  ProposalClosing,
  ProposalContent,
  ProposalDraft,
  ProposalEntry,
  ProposalLimits,
  ProposalPage,
  ProposalQuery,
} from "../proposal-store.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { type Comparison, insert, placeholders, type Query, toCondition, toPage } from "./query.ts";
import { decompress } from "./revision-row.ts";

const compress = promisify(zstdCompress);

/** The columns of the table `proposal` that never change. */
type ProposedRow = {
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
  digest: string;
  node_count: number;
  size_bytes: number;
};

type AssignedRow = { seq: number; created_at_ms: number; expires_at_ms: number };

/** All null while nobody has closed it. */
type ClosingRow = {
  closed: ProposalClosing["state"] | null;
  closed_at_ms: number | null;
  closed_by: string | null;
  closed_token_id: string | null;
  closed_token_name: string | null;
  reason: string | null;
  rev: string | null;
};

export type ProposalRow = ProposedRow & AssignedRow & ClosingRow;

/** The table `proposal_content`. */
export type ProposalContentRow = { flows: Uint8Array; credentials: Uint8Array };

/** What the credentials of a proposal are encrypted for. Not the `rev` of a revision, which contains no space. */
export function sealNameOf(id: string): string {
  return `proposal ${id}`;
}

/** So many proposals that can't be approved any more are kept, the newest ones, and so many bytes of their flows. */
const maxKept = { count: 200, bytes: 256 * 1024 * 1024 };

const columns =
  "seq, id, base, created_at_ms, expires_at_ms, proposed_by, token_id, token_name, client_address, protocol, request_id, " +
  "deployment_type, message, wait_ms, undo_on_failure, max_errors, changes, digest, node_count, size_bytes, closed, closed_at_ms, " +
  "closed_by, closed_token_id, closed_token_name, reason, rev";

/** A proposal as it is inserted. */
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
  key: Buffer,
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

export async function insertProposal(
  query: Query,
  { row, content, lifetimeMs, entry, limits }: InsertProposalCall,
): Promise<ProposalRow> {
  // Also excludes commits, and others that insert.
  const log = await lockAudit(query);
  const [newest] = await query<{ rev: string }>("SELECT rev FROM flowgate.revision ORDER BY seq DESC LIMIT 1");
  if (newest?.rev !== row.base) {
    throw versionMismatch(newest?.rev ?? "");
  }
  await assertBelow(query, row, log.nowMs, limits);
  await removeOld(query, row.base, log.nowMs);
  const [last] = await query<{ seq: number | null }>("SELECT max(seq) AS seq FROM flowgate.proposal");
  const assigned: AssignedRow = {
    seq: (last?.seq ?? 0) + 1,
    created_at_ms: log.nowMs,
    expires_at_ms: log.nowMs + lifetimeMs,
  };
  const inserted = { ...row, ...assigned };
  await insert(query, "proposal", inserted);
  await insert(query, "proposal_content", { seq: assigned.seq, ...content });
  await appendAudit(log, [entry]);
  return {
    ...inserted,
    closed: null,
    closed_at_ms: null,
    closed_by: null,
    closed_token_id: null,
    closed_token_name: null,
    reason: null,
    rev: null,
  };
}

/** Rejects with `limit_exceeded` if there must not be another open proposal. */
async function assertBelow(
  query: Query,
  { base, proposed_by: by }: ProposedRow,
  nowMs: number,
  { perUser, total }: ProposalLimits,
): Promise<void> {
  const [counts] = await query<{ total: number; of_user: number }>(
    `SELECT count(*) AS total, count(*) FILTER (WHERE proposed_by = $1) AS of_user FROM flowgate.proposal
     WHERE closed IS NULL AND base = $2 AND expires_at_ms > $3`,
    [by, base, nowMs],
  );
  const { total: found = 0, of_user: ofUser = 0 } = counts ?? {};
  if (ofUser >= perUser) {
    throw new FlowgateError(
      "limit_exceeded",
      `you have ${ofUser} open proposals, and approvals.maxOpenPerUser permits no more: withdraw one`,
    );
  }
  if (found >= total) {
    throw new FlowgateError(
      "limit_exceeded",
      `there are ${found} open proposals, and approvals.maxOpen permits no more: have some approved, rejected or withdrawn`,
    );
  }
}

async function removeOld(query: Query, activeRev: string, nowMs: number): Promise<void> {
  const old = await query<{ seq: number }>(
    `SELECT seq FROM (
       SELECT seq, row_number() OVER (ORDER BY seq DESC) AS place, sum(size_bytes) OVER (ORDER BY seq DESC) AS bytes
       FROM flowgate.proposal WHERE closed IS NOT NULL OR base <> $1 OR expires_at_ms <= $2
     ) AS old WHERE place > $3 OR bytes > $4 ORDER BY seq LIMIT 100`,
    [activeRev, nowMs, maxKept.count, maxKept.bytes],
  );
  if (old.length > 0) {
    const seqs = old.map(({ seq }) => seq);
    for (const table of ["proposal_content", "proposal"]) {
      await query(`DELETE FROM flowgate.${table} WHERE seq IN (${placeholders(seqs.length)})`, seqs);
    }
  }
}

/** How a proposal is closed. `rev` is the revision that its approval makes. */
export type CloseProposalCall = {
  readonly id: string;
  readonly state: ProposalClosing["state"];
  readonly origin: Origin;
  readonly reason: string | undefined;
  readonly rev: string | undefined;
};

/** Resolves with undefined, and changes nothing, unless the proposal exists, is not closed and has not expired. */
export async function closeProposal(
  query: Query,
  { id, state, origin, reason, rev }: CloseProposalCall,
  nowMs: number,
): Promise<ProposalRow | undefined> {
  const closing: ClosingRow = {
    closed: state,
    closed_at_ms: nowMs,
    closed_by: origin.by ?? null,
    closed_token_id: origin.token?.id ?? null,
    closed_token_name: origin.token?.name ?? null,
    reason: reason ?? null,
    rev: rev ?? null,
  };
  const assignments = Object.keys(closing).map((name, index) => `${name} = $${index + 3}`);
  const [row] = await query<ProposalRow>(
    `UPDATE flowgate.proposal SET ${assignments.join(", ")}
     WHERE id = $1 AND closed IS NULL AND expires_at_ms > $2 RETURNING ${columns}`,
    [id, nowMs, ...Object.values(closing)],
  );
  return row;
}

/** Closes a proposal without deploying it. */
export async function endProposal(
  query: Query,
  { entry, ...call }: Omit<CloseProposalCall, "origin" | "rev"> & { readonly entry: AuditRecord },
): Promise<ProposalRow | undefined> {
  const log = await lockAudit(query);
  const row = await closeProposal(query, { ...call, origin: entry.origin, rev: undefined }, log.nowMs);
  if (row !== undefined) {
    await appendAudit(log, [entry]);
  }
  return row;
}

export async function findProposalEntry(query: Query, id: string): Promise<ProposalEntry | undefined> {
  const [row] = await query<ProposalRow>(`SELECT ${columns} FROM flowgate.proposal WHERE id = $1`, [id]);
  return row && toProposalEntry(row);
}

/** `key` decrypts the credentials. */
export async function findProposal(
  query: Query,
  id: string,
  key: Buffer,
): Promise<(ProposalEntry & ProposalContent) | undefined> {
  const [row] = await query<ProposalRow & ProposalContentRow>(
    `SELECT ${columns}, flows, credentials FROM flowgate.proposal JOIN flowgate.proposal_content USING (seq) WHERE id = $1`,
    [id],
  );
  return (
    row && {
      ...toProposalEntry(row),
      flows: parseDocument(await decompress(row.flows), row.node_count),
      credentials: openText(key, sealNameOf(id), row.credentials),
    }
  );
}

export async function listProposals(
  query: Query,
  { limit, before = Number.MAX_SAFE_INTEGER, by, state }: ProposalQuery,
): Promise<ProposalPage> {
  const { condition, values } = toCondition([["seq <", before], ["proposed_by =", by], ...comparisonsOf(state)]);
  const isOpen = state !== undefined && ["open", "stale", "expired"].includes(state.is);
  const rows = await query<ProposalRow>(
    `SELECT ${columns} FROM flowgate.proposal WHERE ${condition}${isOpen ? " AND closed IS NULL" : ""}
     ORDER BY seq DESC LIMIT $${values.length + 1}`,
    [...values, limit + 1],
  );
  const { rows: page, next } = toPage(rows, limit);
  return { proposals: page.map(toProposalEntry), next };
}

/** The conditions of `stateOf`. */
function comparisonsOf(state: ProposalQuery["state"]): readonly Comparison[] {
  if (state === undefined) {
    return [];
  }
  switch (state.is) {
    case "open":
      return [
        ["base =", state.activeRev],
        ["expires_at_ms >", state.nowMs],
      ];
    case "expired":
      return [
        ["base =", state.activeRev],
        ["expires_at_ms <=", state.nowMs],
      ];
    case "stale":
      return [["base <>", state.activeRev]];
    default:
      return [["closed =", state.is]];
  }
}

export function toProposalEntry(row: ProposalRow): ProposalEntry {
  return {
    id: row.id,
    seq: row.seq,
    base: row.base,
    createdAtMs: row.created_at_ms,
    expiresAtMs: row.expires_at_ms,
    by: row.proposed_by ?? undefined,
    token: toToken(row.token_id, row.token_name),
    address: row.client_address ?? undefined,
    protocol: row.protocol ?? undefined,
    requestId: row.request_id ?? undefined,
    deploymentType: row.deployment_type,
    message: row.message ?? undefined,
    waitMs: row.wait_ms ?? undefined,
    undoOnFailure: row.undo_on_failure !== 0,
    maxErrors: row.max_errors,
    changes: parseChanges(row.changes),
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

function toClosing(row: ProposalRow): ProposalClosing | undefined {
  return row.closed === null
    ? undefined
    : {
        state: row.closed,
        atMs: row.closed_at_ms ?? 0,
        by: row.closed_by ?? undefined,
        token: toToken(row.closed_token_id, row.closed_token_name),
        reason: row.reason ?? undefined,
        rev: row.rev ?? undefined,
      };
}

function toToken(id: string | null, name: string | null): Origin["token"] {
  return id === null ? undefined : { id, name: name ?? undefined };
}
