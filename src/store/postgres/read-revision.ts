import { toRevision } from "../commit-row.ts";
import { toPortable } from "../portable-text.ts";
import { contentColumns, type ContentRow, summaryColumns, type SummaryRow } from "../revision-row.ts";
import type { Revision } from "../revision.ts";
import type { Query } from "./query.ts";

/** Resolves with undefined if there is no such revision. `key` decrypts the credentials. */
export async function readRevision(query: Query, rev: string, key: Buffer): Promise<Revision | undefined> {
  const [row] = await query<SummaryRow & ContentRow>(
    `SELECT ${summaryColumns}, ${contentColumns}
     FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE rev = $1`,
    [toPortable(rev)],
  );
  return row && toRevision(row, key);
}

/** Rejects if there is no such revision. */
export async function readExistingRevision(query: Query, rev: string, key: Buffer): Promise<Revision> {
  const revision = await readRevision(query, rev, key);
  if (revision === undefined) {
    throw new Error(`Revision ${rev} was removed from the database.`);
  }
  return revision;
}
