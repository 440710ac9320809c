import { createListeners } from "@flowgate/base/listeners";
import { type CredentialSets, changedCredentials } from "@flowgate/flows";
import type { AuditRecord } from "../audit-store.ts";
import type { CredentialKeys } from "../credential-keys.ts";
import { openCredentials } from "../credentials.ts";
import {
  type FlowStore,
  RepeatedRequest,
  type Retention,
  type RevisionEvent,
  type RevisionPage,
  tooManyPinned,
} from "../flow-store.ts";
import type { Revision, RevisionEntry } from "../revision.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { insertModuleSet, pruneModules } from "./modules.ts";
import {
  findLater,
  keepLater,
  mustConsider,
  pruneCredentials,
  removeClaimed,
  type WrittenCredentials,
} from "./node-credentials.ts";
import { closeProposal } from "./proposals.ts";
import { insert, nowMs, placeholders, type Query, toCondition, toPage } from "./query.ts";
import {
  type AssignedColumns,
  type CommitCall,
  contentColumns,
  type ContentRow,
  type EntryRow,
  entryColumns,
  type RevisionRow,
  type StateRow,
  summaryColumns,
  type SummaryRow,
  toAuditRecords,
  toEntry,
  toPruneRecord,
  toRevision,
} from "./revision-row.ts";

export type Newest = AssignedColumns & Pick<SummaryRow, "rev">;

/** The time for which a commit's key can't be used for another commit. */
const keyLifetimeMs = 24 * 60 * 60_000;

/** The number of revisions that are removed at once. Limits how long commits wait for a removal. */
export const pruneBatch = 100;

/** The newest known revision, in memory, with what its nodes have stored as their credentials. */
export class ActiveRevision {
  /** Without node writes. */
  #committed: Revision;
  #written: WrittenCredentials;
  #revision: Revision;
  readonly #listeners = createListeners<RevisionEvent>();
  readonly #credentialListeners = createListeners<CredentialSets>();

  constructor(revision: Revision, written: WrittenCredentials) {
    this.#committed = revision;
    this.#written = written;
    this.#revision = written.applyTo(revision);
  }

  get(): Revision {
    return this.#revision;
  }

  get written(): WrittenCredentials {
    return this.#written;
  }

  set written(written: WrittenCredentials) {
    const { credentials, writtenSeq } = this.#revision;
    this.#written = written;
    const next = written.applyTo(this.#committed);
    if (changedCredentials(credentials, next.credentials).size > 0) {
      this.#revision = next;
      this.#credentialListeners.notify(next.credentials);
    } else if (next.writtenSeq !== writtenSeq) {
      this.#revision = Object.freeze({ ...next, credentials });
    }
  }

  /** Makes the revision the active one, and reports it, if it is newer. Returns it with what its nodes have stored. */
  activate(revision: Revision, isOwn: boolean, message?: string): Revision {
    if (revision.seq > this.#revision.seq) {
      this.#committed = revision;
      this.#revision = this.#written.applyTo(revision);
      this.#listeners.notify({ revision: this.#revision, isOwn, message });
    }
    return revision.rev === this.#revision.rev ? this.#revision : this.#written.applyTo(revision);
  }

  onCredentials(listener: (credentials: CredentialSets) => void): Disposable {
    return this.#credentialListeners.add(listener);
  }

  /** Reports that another process has called `reload`. */
  reportReload(): void {
    this.#listeners.notify({ revision: this.#revision, isOwn: false, isReload: true });
  }

  onRevision(listener: (event: RevisionEvent) => void): Disposable {
    return this.#listeners.add(listener);
  }
}

export async function findNewest(query: Query): Promise<Newest | undefined> {
  const [row] = await query<Newest>(
    "SELECT seq, rev, committed_at_ms FROM flowgate.revision ORDER BY seq DESC LIMIT 1",
  );
  return row;
}

/** Resolves with undefined if there is no such revision. `keys` decrypt the credentials. */
export async function findRevision(query: Query, rev: string, keys: CredentialKeys): Promise<Revision | undefined> {
  const [row] = await query<SummaryRow & ContentRow>(
    `SELECT ${summaryColumns}, ${contentColumns}
     FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE rev = $1`,
    [rev],
  );
  return row && toRevision(row, keys);
}

/** Rejects if there is no such revision. */
export async function readRevision(query: Query, rev: string, keys: CredentialKeys): Promise<Revision> {
  const revision = await findRevision(query, rev, keys);
  if (revision === undefined) {
    throw new Error(`Revision ${rev} was removed from the database.`);
  }
  return revision;
}

export async function findCredentials(
  query: Query,
  rev: string,
  keys: CredentialKeys,
): Promise<(Pick<Revision, "seq"> & { readonly credentials: CredentialSets }) | undefined> {
  const [row] = await query<Pick<ContentRow, "credentials"> & Pick<SummaryRow, "seq">>(
    "SELECT seq, credentials FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE rev = $1",
    [rev],
  );
  return row && { seq: row.seq, credentials: openCredentials(keys, rev, row.credentials) };
}

export async function findEntry(query: Query, rev: string): Promise<RevisionEntry | undefined> {
  const [row] = await query<EntryRow>(`SELECT ${entryColumns} FROM flowgate.revision WHERE rev = $1`, [rev]);
  return row && toEntry(row);
}

export async function listRevisions(
  query: Query,
  { limit, before = Number.MAX_SAFE_INTEGER, filter = {} }: Parameters<FlowStore["list"]>[0],
): Promise<RevisionPage> {
  const { by, deploymentType, outcome, pinned, fromMs, untilMs } = filter;
  const { condition, values } = toCondition([
    ["seq <", before],
    ["deployed_by =", by],
    ["deployment_type =", deploymentType],
    ["outcome =", outcome],
    ["pinned =", pinned === undefined ? undefined : Number(pinned)],
    ["committed_at_ms >=", fromMs],
    ["committed_at_ms <", untilMs],
  ]);
  const rows = await query<EntryRow>(
    `SELECT ${entryColumns} FROM flowgate.revision WHERE ${condition} ORDER BY seq DESC LIMIT $${values.length + 1}`,
    [...values, limit + 1],
  );
  const { rows: page, next } = toPage(rows, limit);
  return { revisions: page.map(toEntry), next };
}

/** The revision that the first request with an idempotency key made, and the hash of that request. */
type Repeated = { readonly rev: string; readonly fingerprint: Uint8Array };

export async function findRepeated(query: Query, by: string | undefined, key: string) {
  const [row] = await query<Repeated>(
    `SELECT rev, fingerprint FROM flowgate.idempotency_key
     WHERE "user" = $1 AND key = $2 AND created_at_ms >= ${nowMs} - $3`,
    [by ?? "", key, keyLifetimeMs],
  );
  return row && new RepeatedRequest(row.rev, row.fingerprint);
}

export type CommitReply =
  | ({ readonly kind: "committed" } & AssignedColumns)
  /** The parent is not the newest revision, which is this one. */
  | { readonly kind: "mismatch"; readonly newest: Newest }
  /** The idempotency key belongs to this revision. */
  | ({ readonly kind: "repeated" } & Repeated)
  /** The proposal can't be approved any more. */
  | { readonly kind: "closed" }
  /** Nodes have written credentials that it would replace. */
  | { readonly kind: "outdated" };

/** Writes a revision, whose sequence number is at least `minSeq`, if its parent is the newest one. */
export async function commitRevision(query: Query, call: CommitCall, minSeq = 0): Promise<CommitReply> {
  const { idempotencyKey, approval, unapproved, modules, writes, ...draft } = call;
  // Excludes other commits, so that the newest revision stays the newest one.
  const log = await lockAudit(query);
  if (idempotencyKey !== undefined) {
    const { user, key } = idempotencyKey;
    await query("DELETE FROM flowgate.idempotency_key WHERE created_at_ms < $1", [log.nowMs - keyLifetimeMs]);
    const [repeated] = await query<Repeated>(
      'SELECT rev, fingerprint FROM flowgate.idempotency_key WHERE "user" = $1 AND key = $2',
      [user, key],
    );
    if (repeated !== undefined) {
      return { kind: "repeated", ...repeated };
    }
  }
  const newest = await findNewest(query);
  if (newest === undefined) {
    throw new Error("the table of revisions is empty: restore the database from a backup");
  }
  if (newest.rev !== draft.parent) {
    return { kind: "mismatch", newest };
  }
  const later = await findLater(query, writes.seq);
  if (!writes.replacesLater && mustConsider(later, draft.submitted)) {
    return { kind: "outdated" };
  }
  if (approval !== undefined) {
    const { proposalId: id, origin, reason } = approval;
    const closing = { id, state: "approved", origin, reason, rev: draft.rev } as const;
    if ((await closeProposal(query, closing, log.nowMs)) === undefined) {
      return { kind: "closed" };
    }
  }
  const written = { seq: Math.max(newest.seq + 1, minSeq), committed_at_ms: log.nowMs };
  const module_set_seq = modules === undefined ? null : await insertModuleSet(query, modules);
  const row = { ...draft, ...written, module_set_seq };
  await insertRevision(query, row);
  await keepLater(query, later, row);
  await removeClaimed(query, writes.claimed);
  if (idempotencyKey !== undefined) {
    await insert(query, "idempotency_key", { ...idempotencyKey, rev: draft.rev, created_at_ms: log.nowMs });
  }
  const isUndo = draft.cause === "undo" || draft.cause === "automatic_undo";
  await query(`UPDATE flowgate.revision SET outcome = $2 WHERE rev = $1${isUndo ? "" : " AND outcome = 'pending'"}`, [
    draft.parent,
    isUndo ? "undone" : "replaced",
  ]);
  await appendAudit(log, toAuditRecords(row, { approval, unapproved }));
  return { kind: "committed", ...written };
}

/** Inserts the first revision if there is none. */
export async function insertRoot(query: Query, call: CommitCall): Promise<void> {
  const { idempotencyKey: _1, approval: _2, unapproved: _3, modules: _4, writes: _5, ...root } = call;
  const { nowMs } = await lockAudit(query);
  if ((await findNewest(query)) === undefined) {
    await insertRevision(query, { ...root, parent: null, seq: 1, committed_at_ms: nowMs, module_set_seq: null });
  }
}

async function insertRevision(
  query: Query,
  { flows, credentials, kept, submitted, ...row }: RevisionRow,
): Promise<void> {
  await insert(query, "revision", row);
  await insert(query, "revision_content", { seq: row.seq, flows, credentials, kept, submitted });
}

export type UpdateCall = {
  readonly rev: string;
  readonly columns: Partial<StateRow>;
  readonly entry: AuditRecord | undefined;
  readonly maxPinned: number | undefined;
};

/** Resolves with the changed row; undefined if there is no such revision. */
export async function updateRevision(
  query: Query,
  { rev, columns, entry, maxPinned }: UpdateCall,
): Promise<EntryRow | undefined> {
  // Also excludes others that pin.
  const log = entry && (await lockAudit(query));
  if (columns.pinned === 1 && maxPinned !== undefined) {
    const text = "SELECT count(*) AS count FROM flowgate.revision WHERE pinned = 1 AND rev <> $1";
    const [pins] = await query<{ count: number }>(text, [rev]);
    if ((pins?.count ?? 0) >= maxPinned) {
      throw tooManyPinned(maxPinned);
    }
  }
  const names = Object.keys(columns);
  const assignments = names.map((name, index) => `${name} = ${newValue(name, `$${index + 2}`)}`).join(", ");
  const [row] = await query<EntryRow>(
    names.length === 0
      ? `SELECT ${entryColumns} FROM flowgate.revision WHERE rev = $1`
      : `UPDATE flowgate.revision SET ${assignments} WHERE rev = $1 RETURNING ${entryColumns}`,
    [rev, ...Object.values(columns)],
  );
  if (row !== undefined && log !== undefined && entry !== undefined) {
    await appendAudit(log, [entry]);
  }
  return row;
}

function newValue(name: string, value: string): string {
  switch (name) {
    case "restarts":
      return `restarts + ${value}`;
    case "outcome":
    case "outcome_message":
    case "missing_types":
      // A replica may not know yet that another one has undone the revision.
      return `CASE outcome WHEN 'undone' THEN ${name} ELSE ${value} END`;
    default:
      return value;
  }
}

/** Removes revisions as `FlowStore.prune` does, but at most `pruneBatch`, and resolves with their number. */
export async function pruneRevisions(query: Query, { maxCount, maxAgeMs }: Retention): Promise<number> {
  const log = await lockAudit(query);
  // The active revision and its parent, which has the highest lower sequence number, are kept.
  const excess = await query<Pick<SummaryRow, "seq" | "rev">>(
    `SELECT seq, rev FROM flowgate.revision
     WHERE pinned = 0 AND seq < (SELECT min(seq) FROM (SELECT seq FROM flowgate.revision ORDER BY seq DESC LIMIT 2) AS kept)
       AND (committed_at_ms < $1 OR seq <= (SELECT seq FROM flowgate.revision ORDER BY seq DESC LIMIT 1 OFFSET $2))
     ORDER BY seq LIMIT ${pruneBatch} FOR UPDATE SKIP LOCKED`,
    [maxAgeMs === undefined ? 0 : log.nowMs - maxAgeMs, maxCount],
  );
  if (excess.length > 0) {
    const seqs = excess.map(({ seq }) => seq);
    for (const table of ["revision_content", "revision"]) {
      await query(`DELETE FROM flowgate.${table} WHERE seq IN (${placeholders(seqs.length)})`, seqs);
    }
    await appendAudit(log, [toPruneRecord(excess.map(({ rev }) => rev))]);
  }
  await pruneCredentials(query);
  await pruneModules(query, log.nowMs);
  return excess.length;
}
