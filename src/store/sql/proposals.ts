import { FlowgateError } from "@flowgate/flows/errors";
import { parseDocument } from "@flowgate/flows";
import type { AuditRecord, Origin } from "../audit-store.ts";
import type { CredentialKeys } from "../credential-keys.ts";
import { openText } from "../credentials.ts";
import { versionMismatch } from "../flow-store.ts";
import type {
  ProposalClosing,
  ProposalContent,
  ProposalEntry,
  ProposalLimits,
  ProposalPage,
  ProposalQuery,
} from "../proposal-store.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import {
  type AssignedRow,
  type ClosingRow,
  type InsertProposalCall,
  proposalColumns,
  type ProposalContentRow,
  type ProposalRow,
  type ProposedRow,
  sealNameOf,
  toProposalEntry,
} from "./proposal-row.ts";
import { type Comparison, insert, placeholders, type Query, toCondition, toPage } from "./query.ts";
import { decompress } from "./revision-row.ts";

/** So many proposals that can't be approved any more are kept, the newest ones, and so many bytes of their flows. */
const maxKept = { count: 200, bytes: 256 * 1024 * 1024 };

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
      `open proposal limit reached (${ofUser}, approvals.maxOpenPerUser): withdraw one first`,
    );
  }
  if (found >= total) {
    throw new FlowgateError(
      "limit_exceeded",
      `open proposal limit of all users reached (${found}, approvals.maxOpen): approve, reject or withdraw one first`,
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

/** The closing of a proposal. `rev` is the revision made by its approval. */
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
     WHERE id = $1 AND closed IS NULL AND expires_at_ms > $2 RETURNING ${proposalColumns}`,
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
  const [row] = await query<ProposalRow>(`SELECT ${proposalColumns} FROM flowgate.proposal WHERE id = $1`, [id]);
  return row && toProposalEntry(row);
}

/** `keys` decrypt the credentials. */
export async function findProposal(
  query: Query,
  id: string,
  keys: CredentialKeys,
): Promise<(ProposalEntry & ProposalContent) | undefined> {
  const [row] = await query<ProposalRow & ProposalContentRow>(
    `SELECT ${proposalColumns}, flows, credentials FROM flowgate.proposal JOIN flowgate.proposal_content USING (seq) WHERE id = $1`,
    [id],
  );
  return (
    row && {
      ...toProposalEntry(row),
      flows: parseDocument(await decompress(row.flows), row.node_count),
      credentials: openText(keys, sealNameOf(id), row.credentials),
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
    `SELECT ${proposalColumns} FROM flowgate.proposal WHERE ${condition}${isOpen ? " AND closed IS NULL" : ""}
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
