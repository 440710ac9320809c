import { FlowgateError } from "@flowgate/flows/errors";
import type { AuditRecord } from "../audit-store.ts";
import { documentLimits, documentsOfPage, type StoredDocument } from "../document-store.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { insert, type Query, toPortable } from "./query.ts";

/** The table `document`. */
type DocumentRow = {
  seq: number;
  name: string;
  details: string;
  content: string;
  changed_by: string | null;
  changed_at_ms: number;
};

export async function findDocument(query: Query, name: string): Promise<StoredDocument | undefined> {
  const [row] = await query<DocumentRow>(
    "SELECT name, details, content, changed_by FROM flowgate.document WHERE name = $1",
    [name],
  );
  return row && { ...toListed(row), content: row.content };
}

/** The part of a name behind a folder. Databases count characters, not UTF-16 code units. */
const rest = "substr(name, CAST($2 AS integer) + 1)";
const isWithin = "substr(name, 1, CAST($2 AS integer)) = $1";

export async function listDocumentFolders(query: Query, folder: string): Promise<string[]> {
  const rows = await query<{ rest: string }>(
    `SELECT ${rest} AS rest FROM flowgate.document WHERE ${isWithin} AND ${rest} LIKE '%/%'`,
    [folder, Array.from(folder).length],
  );
  return [...new Set(rows.map((row) => row.rest.slice(0, row.rest.indexOf("/"))))].toSorted();
}

export async function listDocuments(
  query: Query,
  folder: string,
  after = "",
): Promise<Omit<StoredDocument, "content">[]> {
  const rows = await query<DocumentRow>(
    `SELECT name, details, changed_by FROM flowgate.document
    WHERE name > $3 AND ${isWithin} AND ${rest} NOT LIKE '%/%' ORDER BY name LIMIT ${documentsOfPage}`,
    [folder, Array.from(folder).length, after],
  );
  return rows.map(toListed);
}

export type PutDocumentCall = { readonly document: StoredDocument; readonly entry: AuditRecord | undefined };

export async function putDocument(query: Query, { document, entry }: PutDocumentCall): Promise<void> {
  const { name, details, content, by } = document;
  // Also excludes others that write documents.
  const log = await lockAudit(query);
  await query("DELETE FROM flowgate.document WHERE name = $1", [name]);
  const [totals] = await query<{ last: number | null; count: number; bytes: number | null }>(
    "SELECT max(seq) AS last, count(*) AS count, sum(octet_length(details) + octet_length(content)) AS bytes FROM flowgate.document",
  );
  const { last = 0, count = 0, bytes = 0 } = totals ?? {};
  const added = Buffer.byteLength(details) + Buffer.byteLength(content);
  if (count >= documentLimits.count || Number(bytes) + added > documentLimits.totalBytes) {
    throw new FlowgateError(
      "limit_exceeded",
      "the library is full: it has as many entries, or bytes, as the store permits",
    );
  }
  const row: DocumentRow = {
    seq: Number(last) + 1,
    name: toPortable(name),
    details: toPortable(details),
    content: toPortable(content),
    changed_by: toPortable(by) ?? null,
    changed_at_ms: log.nowMs,
  };
  await insert(query, "document", row);
  if (entry !== undefined) {
    await appendAudit(log, [entry]);
  }
}

function toListed({ name, details, changed_by }: DocumentRow): Omit<StoredDocument, "content"> {
  return { name, details, by: changed_by ?? undefined };
}
