import { hash } from "node:crypto";
import type { RevisionModule, StoredTarball } from "../module-store.ts";
import { lockAudit } from "./audit-log.ts";
import { insert, placeholders, type Query } from "./query.ts";

/** The time for which an unused tarball is kept: a commit in progress may need it. */
const unusedTarballMs = 24 * 60 * 60_000;

/** A JSON array of arrays: name, version, integrity, types. */
function formatModules(modules: readonly RevisionModule[]): string {
  const sorted = modules.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const rows = sorted.map(({ name, version, integrity = null, types }) => [name, version, integrity, types]);
  return JSON.stringify(rows);
}

function parseModules(json: string): RevisionModule[] {
  const rows = JSON.parse(json) as [name: string, version: string, integrity: string | null, types: string[]][];
  return rows.map(([name, version, integrity, types]) => ({ name, version, integrity: integrity ?? undefined, types }));
}

/** Resolves with the number of a set of modules, which revisions share. The caller holds the lock of the audit log. */
export async function insertModuleSet(query: Query, modules: readonly RevisionModule[]): Promise<number> {
  const json = formatModules(modules);
  const digest = hash("sha256", json);
  const [known] = await query<{ seq: number }>("SELECT seq FROM flowgate.module_set WHERE hash = $1", [digest]);
  if (known !== undefined) {
    return known.seq;
  }
  const seq = await nextSeq(query, "module_set");
  await insert(query, "module_set", { seq, hash: digest, modules: json });
  return seq;
}

export async function findModules(query: Query, rev: string): Promise<readonly RevisionModule[] | undefined> {
  const [row] = await query<{ modules: string }>(
    "SELECT modules FROM flowgate.revision JOIN flowgate.module_set ON module_set.seq = module_set_seq WHERE rev = $1",
    [rev],
  );
  return row && parseModules(row.modules);
}

export type ModulesCall = {
  readonly rev: string;
  readonly modules: readonly RevisionModule[];
  readonly before: readonly RevisionModule[] | undefined;
};

export async function recordModules(query: Query, { rev, modules, before }: ModulesCall): Promise<boolean> {
  await lockAudit(query);
  const current = await findModules(query, rev);
  if ((current && formatModules(current)) !== (before && formatModules(before))) {
    return false;
  }
  const seq = await insertModuleSet(query, modules);
  await query("UPDATE flowgate.revision SET module_set_seq = $1 WHERE rev = $2", [seq, rev]);
  return true;
}

export async function insertTarball(query: Query, { integrity, content }: StoredTarball): Promise<void> {
  const { nowMs } = await lockAudit(query);
  const known = await listTarballs(query, [integrity]);
  if (known.length === 0) {
    const seq = await nextSeq(query, "module_tarball");
    const bytes = Buffer.from(content.buffer, content.byteOffset, content.byteLength);
    await insert(query, "module_tarball", { seq, integrity, content: bytes, stored_at_ms: nowMs });
  }
}

export async function findTarball(query: Query, integrity: string): Promise<Uint8Array | undefined> {
  const text = "SELECT content FROM flowgate.module_tarball WHERE integrity = $1";
  const [row] = await query<{ content: Uint8Array }>(text, [integrity]);
  return row?.content;
}

export async function listTarballs(query: Query, integrities: readonly string[]): Promise<string[]> {
  if (integrities.length === 0) {
    return [];
  }
  const rows = await query<{ integrity: string }>(
    `SELECT integrity FROM flowgate.module_tarball WHERE integrity IN (${placeholders(integrities.length)})`,
    integrities,
  );
  return rows.map(({ integrity }) => integrity);
}

/** Removes modules that no revision needs any more. The caller holds the lock of the audit log. */
export async function pruneModules(query: Query, timeMs: number): Promise<void> {
  await query(
    `DELETE FROM flowgate.module_set WHERE NOT EXISTS
       (SELECT 1 FROM flowgate.revision WHERE module_set_seq = module_set.seq)`,
  );
  await query(
    `DELETE FROM flowgate.module_tarball WHERE stored_at_ms < $1 AND NOT EXISTS
       (SELECT 1 FROM flowgate.module_set WHERE modules LIKE '%' || integrity || '%')`,
    [timeMs - unusedTarballMs],
  );
}

async function nextSeq(query: Query, table: "module_set" | "module_tarball"): Promise<number> {
  const [row] = await query<{ seq: number }>(`SELECT coalesce(max(seq), 0) + 1 AS seq FROM flowgate.${table}`);
  return row?.seq ?? 1;
}
