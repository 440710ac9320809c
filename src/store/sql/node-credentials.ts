import { type CredentialSets, type CredentialValue, type CredentialSet, findTypes } from "@flowgate/flows";
import { type AuditRecord, systemOrigin } from "../audit-store.ts";
import type { CredentialKey, CredentialKeys } from "../credential-keys.ts";
import { openText, sealText } from "../credentials.ts";
import { type CredentialWrite, type CredentialWriteResult, writtenLimits } from "../node-credentials.ts";
import type { Revision } from "../revision.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { insert, placeholders, type Query } from "./query.ts";
import { parseSubmitted } from "./submitted-nodes.ts";

/** The table `node_credential`: the newest credentials stored by each node. */
type NodeCredentialRow = {
  /** The sequence number of its audit entry, which grows with each write. */
  seq: number;
  /** As JSON, which can represent all ids in all databases. */
  node_id: string;
  /** As JSON. Null: there was no such node. */
  type: string | null;
  /** The newest revision that it is newer than. */
  base_seq: number;
  credentials: Uint8Array;
  written_at_ms: number;
};

/** Returns the encryption context of a node's credentials. `id` is the column `node_id`. */
export function nodeSealName(id: string): string {
  return `node ${id}`;
}

type Written = {
  readonly seq: number;
  readonly type: string | undefined;
  readonly baseSeq: number;
  readonly writtenAtMs: number;
  readonly set: NonNullable<CredentialSet>;
};

/** The credentials that nodes have stored, by node id. */
export class WrittenCredentials {
  readonly #rows: ReadonlyMap<string, Written>;
  /** The newest write. */
  readonly seq: number;

  constructor(rows: ReadonlyMap<string, Written> = new Map()) {
    this.#rows = rows;
    this.seq = rows.values().reduce((newest, { seq }) => Math.max(newest, seq), 0);
  }

  /** Reads them again. */
  async read(query: Query, keys: CredentialKeys): Promise<WrittenCredentials> {
    const found = await query<Omit<NodeCredentialRow, "credentials"> & { readonly credentials: Uint8Array | null }>(
      `SELECT seq, node_id, type, base_seq, written_at_ms, CASE WHEN seq > $1 THEN credentials END AS credentials
       FROM flowgate.node_credential ORDER BY seq`,
      [this.seq],
    );
    const rows = new Map<string, Written>();
    for (const { seq, node_id, type, base_seq, written_at_ms: writtenAtMs, credentials } of found) {
      const id = JSON.parse(node_id) as string;
      const known = this.#rows.get(id);
      const isKnown = known?.seq === seq && known.writtenAtMs === writtenAtMs;
      if (credentials === null && !isKnown) {
        // A promoted standby can lack earlier writes, whose numbers are used again.
        return new WrittenCredentials().read(query, keys);
      }
      const set = credentials === null ? known?.set : openSet(keys, node_id, credentials);
      rows.set(id, { seq, type: parseType(type), baseSeq: base_seq, writtenAtMs, set: set ?? new Map() });
    }
    return new WrittenCredentials(rows);
  }

  /** The revision with what its nodes have stored since. */
  applyTo(revision: Revision): Revision {
    const written = { ...revision, writtenSeq: this.seq };
    const ids = new Set(this.#since(revision.seq).map(([id]) => id));
    if (ids.size === 0) {
      return Object.freeze(written);
    }
    const credentials = this.replace(revision.credentials, revision.seq, findTypes(revision.flows, ids));
    return Object.freeze({ ...written, credentials });
  }

  /** The credentials of a revision, with later writes by nodes of these types. */
  replace(sets: CredentialSets, seq: number, types: ReadonlyMap<string, string>): CredentialSets {
    const replaced = new Map(sets);
    // A node of another type could send them elsewhere.
    for (const [id, { set }] of this.#since(seq).filter(([id, { type }]) => types.get(id) === type)) {
      if (set.size === 0) {
        replaced.delete(id);
      } else {
        replaced.set(id, set);
      }
    }
    return replaced;
  }

  /** Returns the credentials of nodes that are not deployed yet. */
  unclaimed(): CredentialSets {
    const sinceMs = Date.now() - writtenLimits.unclaimedMs;
    return new Map(
      this.#rows
        .entries()
        .filter(([, { type, writtenAtMs, set }]) => type === undefined && writtenAtMs >= sinceMs && set.size > 0)
        .map(([id, { set }]) => [id, set]),
    );
  }

  #since(seq: number): [string, Written][] {
    return [...this.#rows].filter(([, { type, baseSeq }]) => type !== undefined && baseSeq >= seq);
  }
}

function parseType(type: string | null): string | undefined {
  return type === null ? undefined : (JSON.parse(type) as string);
}

function openSet(keys: CredentialKeys, id: string, credentials: Uint8Array): Written["set"] {
  return new Map(JSON.parse(openText(keys, nodeSealName(id), credentials)) as [string, CredentialValue][]);
}

type WriteCall = Pick<CredentialWrite, "token"> & {
  readonly rows: readonly Pick<NodeCredentialRow, "node_id" | "type" | "credentials">[];
  /** The active revision, whose nodes have the types. */
  readonly activeSeq: number;
  readonly sinceSeq: number;
};

/** Encrypts credentials stored by nodes of the active revision. */
export function toWriteCall(
  { sets, sinceSeq, token }: CredentialWrite,
  active: Revision,
  key: CredentialKey,
): WriteCall {
  const types = findTypes(active.flows, new Set(sets.keys()));
  const rows = Array.from(sets, ([id, set]) => {
    const node_id = JSON.stringify(id);
    const credentials = sealText(key, nodeSealName(node_id), JSON.stringify([...set]));
    const type = types.get(id);
    return { node_id, type: type === undefined ? null : JSON.stringify(type), credentials };
  });
  return { rows, activeSeq: active.seq, sinceSeq: sinceSeq ?? active.seq, token };
}

export type WriteReply =
  | {
      readonly kind: "done";
      /** In the order of the rows. */
      readonly results: readonly CredentialWriteResult[];
    }
  /** Another replica holds the lease. */
  | { readonly kind: "fenced" }
  /** Another revision is active. */
  | { readonly kind: "stale" };

export async function writeCredentials(
  query: Query,
  { rows, activeSeq, sinceSeq, token }: WriteCall,
): Promise<WriteReply> {
  // Excludes commits.
  const log = await lockAudit(query);
  if (token !== undefined && !(await holdsLease(query, token))) {
    return { kind: "fenced" };
  }
  const [newest] = await query<{ seq: number }>("SELECT max(seq) AS seq FROM flowgate.revision");
  if (newest?.seq !== activeSeq) {
    return { kind: "stale" };
  }
  await query("DELETE FROM flowgate.node_credential WHERE type IS NULL AND written_at_ms < $1", [
    log.nowMs - writtenLimits.unclaimedMs,
  ]);
  const isSubmitted = await findSubmitted(query, sinceSeq);
  const totals = await readTotals(
    query,
    rows.map(({ node_id }) => node_id),
  );
  const records: AuditRecord[] = [];
  const results: CredentialWriteResult[] = [];
  for (const row of rows) {
    const id = JSON.parse(row.node_id) as string;
    if (isSubmitted(id)) {
      results.push("superseded");
    } else if (totals.add(row)) {
      await query("DELETE FROM flowgate.node_credential WHERE node_id = $1", [row.node_id]);
      const seq = log.head.seq + records.length + 1;
      await insert(query, "node_credential", { ...row, seq, base_seq: activeSeq, written_at_ms: log.nowMs });
      const detail = parseType(row.type) ?? "not deployed yet";
      records.push({ kind: "credentials_written", origin: systemOrigin, subject: id, detail });
      results.push("written");
    } else {
      results.push("full");
    }
  }
  await appendAudit(log, records);
  return { kind: "done", results };
}

/** True if the lease has this token, until the transaction ends: another replica acquires it before or after. */
export async function holdsLease(query: Query, token: number): Promise<boolean> {
  const [lease] = await query<{ token: number }>("SELECT token FROM flowgate.lease WHERE name = 'runtime' FOR SHARE");
  return lease?.token === token;
}

/** Returns whether a revision after this one has determined the credentials of a node. */
async function findSubmitted(query: Query, seq: number): Promise<(id: string) => boolean> {
  const later = await query<{ submitted: string }>("SELECT submitted FROM flowgate.revision_content WHERE seq > $1", [
    seq,
  ]);
  const tests = later.map(({ submitted }) => parseSubmitted(submitted));
  return (id) => tests.some((test) => test(id));
}

/** Counts stored credentials, except for these nodes. */
async function readTotals(query: Query, ids: readonly string[]) {
  const [found] = await query<{ count: number; bytes: number | string | null; unclaimed: number }>(
    `SELECT count(*) AS count, sum(length(credentials)) AS bytes, count(*) FILTER (WHERE type IS NULL) AS unclaimed
     FROM flowgate.node_credential WHERE node_id NOT IN (${placeholders(ids.length)})`,
    ids,
  );
  let { count = 0, unclaimed = 0 } = found ?? {};
  let bytes = Number(found?.bytes ?? 0);
  return {
    /** True if there is place for this one. */
    add({ type, credentials }: Pick<NodeCredentialRow, "type" | "credentials">): boolean {
      const added = type === null ? 1 : 0;
      if (
        count >= writtenLimits.nodes ||
        unclaimed + added > writtenLimits.unclaimed ||
        bytes + credentials.length > writtenLimits.totalBytes
      ) {
        return false;
      }
      count += 1;
      unclaimed += added;
      bytes += credentials.length;
      return true;
    },
  };
}

type LaterRow = Pick<NodeCredentialRow, "seq" | "type"> & { readonly id: string };

/** Finds credentials written after those that a revision takes into account. */
export async function findLater(query: Query, seq: number): Promise<LaterRow[]> {
  const rows = await query<Pick<NodeCredentialRow, "seq" | "type" | "node_id">>(
    "SELECT seq, type, node_id FROM flowgate.node_credential WHERE seq > $1",
    [seq],
  );
  return rows.map(({ node_id, ...row }) => ({ ...row, id: JSON.parse(node_id) as string }));
}

/** True if a revision has to consider one of these, since it changes the credentials of its node, or has its node for the first time. */
export function mustConsider(later: readonly LaterRow[], submitted: string): boolean {
  const isSubmitted = parseSubmitted(submitted);
  return later.some(({ type, id }) => type === null || isSubmitted(id));
}

/** Makes node writes newer than a revision that does not consider them, unless that determines their credentials. */
export async function keepLater(
  query: Query,
  later: readonly LaterRow[],
  { seq: revisionSeq, submitted }: { readonly seq: number; readonly submitted: string },
): Promise<void> {
  const isSubmitted = parseSubmitted(submitted);
  for (const { seq } of later.filter(({ type, id }) => type !== null && !isSubmitted(id))) {
    await query("UPDATE flowgate.node_credential SET base_seq = $1 WHERE seq = $2", [revisionSeq, seq]);
  }
}

/** Removes writes for undeployed nodes that are deployed with it now. */
export async function removeClaimed(query: Query, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    await query("DELETE FROM flowgate.node_credential WHERE type IS NULL AND node_id = $1", [JSON.stringify(id)]);
  }
}

/** Removes writes older than all revisions, which contain or override them. */
export async function pruneCredentials(query: Query): Promise<void> {
  await query(
    "DELETE FROM flowgate.node_credential WHERE type IS NOT NULL AND base_seq < (SELECT min(seq) FROM flowgate.revision)",
  );
}
